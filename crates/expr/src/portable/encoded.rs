//! Encodes functions, and decodes them.

use crate::meter::Meter;
use crate::portable::entry::Way;
use crate::portable::{Entry, Kind, Table, malformed, stays};
use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry, SessionStateDefaults};
use datafusion::logical_expr::registry::MemoryFunctionRegistry;
use datafusion::prelude::SessionContext;
use hypostyle_error::external;
use hypostyle_types::Error;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// Functions within functions: more than any plan has.
const DEPTH_MAX: usize = 8;

/// Functions of DataFusion's that planning makes constants: another node would take a value of its
/// own.
const CONSTANTS: [&str; 3] = ["current_date", "current_time", "now"];

/// What is said of a function, instead of the function.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Encoded {
    /// A function that is equal to one of a name.
    Named {
        origin: Origin,
        name: String,
        /// Says whether an aggregate's rows come in the order that it asks for, once that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        is_ordered: Option<bool>,
    },
    /// A function of a type, with parameters.
    Made { tag: String, parameters: Value },
}

/// Whose function has a name.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The sessions'.
    Registered,
    /// DataFusion's own, which sessions may have replaced. Plans still have some of those: rules make
    /// calls of them.
    DataFusion,
}

/// The functions that two nodes know alike.
pub struct Functions {
    registered: SessionContext,
    own: MemoryFunctionRegistry,
    meter: Arc<Meter>,
    tables: Vec<&'static Table>,
}

impl Functions {
    /// Returns the functions that a context has registered, as all sessions do
    /// (`registry::register_all`), and those of the types in tables. Functions that are decoded take
    /// the memory of a meter's statement.
    ///
    /// # Errors
    /// Those of DataFusion, if it does not take a function of its own.
    pub fn new(registered: SessionContext, meter: &Arc<Meter>, tables: Vec<&'static Table>) -> Result<Self> {
        let mut own = MemoryFunctionRegistry::new();
        for function in SessionStateDefaults::default_scalar_functions() {
            own.register_udf(function)?;
        }
        for function in SessionStateDefaults::default_aggregate_functions() {
            own.register_udaf(function)?;
        }
        for function in SessionStateDefaults::default_window_functions() {
            own.register_udwf(function)?;
        }
        for function in SessionStateDefaults::default_higher_order_functions() {
            own.register_higher_order_function(function)?;
        }
        Ok(Self { registered, own, meter: meter.clone(), tables })
    }

    /// Encodes a function, for [`Self::decode`] on another node.
    ///
    /// # Errors
    /// `Unsupported` (0A000) for a function that belongs to one session, and for one that is neither
    /// ours nor DataFusion's, whatever its name is.
    pub fn encode<K: Kind>(&self, function: &K) -> Result<Vec<u8>> {
        let encoded = serde_json::to_vec(&self.describe(function)?);
        encoded.map_err(|error| external(Error::internal(format!("{}(): {error}", function.name()))))
    }

    /// Decodes a function, which has to have a name.
    ///
    /// # Errors
    /// 08P01 for bytes that do not encode a function of that name.
    pub fn decode<K: Kind>(&self, name: &str, bytes: &[u8]) -> Result<Arc<K>> {
        let encoded: Encoded = serde_json::from_slice(bytes).map_err(malformed)?;
        let function = Decoder { functions: self, depth: 0 }.function::<K>(encoded)?;
        match function.name() == name {
            true => Ok(function),
            false => Err(malformed(format!("{}() was sent as {name}()", function.name()))),
        }
    }

    /// Returns what is said of a function.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn describe<K: Kind>(&self, function: &K) -> Result<Encoded> {
        let entry = self.entries::<K>().find(|entry| entry.is_of(function));
        if let Some(Entry { way: Way::Refused(why), .. }) = entry {
            return Err(stays(function.name(), K::NOUN, why));
        }
        if let Some(named) = self.named(function)? {
            return Ok(named);
        }
        match entry.map(|entry| &entry.way) {
            Some(Way::Made { tag, encode, .. }) => {
                let parameters = encode(function.implementation(), self)?;
                Ok(Encoded::Made { tag: tag.to_string(), parameters })
            }
            _ => Err(stays(
                function.name(),
                K::NOUN,
                "it is not the one that sessions have under this name, and its parameters are unknown",
            )),
        }
    }

    /// Returns the name of a function, if it is equal to the one of that name.
    fn named<K: Kind>(&self, function: &K) -> Result<Option<Encoded>> {
        for origin in [Origin::Registered, Origin::DataFusion] {
            let Ok(known) = K::named(self.registry(origin), function.name()) else { continue };
            let is_ordered = match *known == *function {
                true => None,
                false => {
                    let is_same = |is_met: &bool| known.over_order(*is_met).is_some_and(|of| of == *function);
                    let Some(is_met) = [true, false].into_iter().find(is_same) else { continue };
                    Some(is_met)
                }
            };
            let name = function.name().to_string();
            check_no_constant::<K>(&name)?;
            return Ok(Some(Encoded::Named { origin, name, is_ordered }));
        }
        Ok(None)
    }

    /// Returns the paths of all types of functions that are told, or refused.
    pub fn type_names(&self) -> Vec<&'static str> {
        self.tables.iter().flat_map(|table| table.type_names()).collect()
    }

    /// Returns the functions that are registered, and DataFusion's own.
    #[cfg(test)]
    pub(crate) fn registries(&self) -> [&dyn FunctionRegistry; 2] {
        [Origin::Registered, Origin::DataFusion].map(|origin| self.registry(origin))
    }

    fn registry(&self, origin: Origin) -> &dyn FunctionRegistry {
        match origin {
            Origin::Registered => &self.registered,
            Origin::DataFusion => &self.own,
        }
    }

    fn entries<K: Kind>(&self) -> impl Iterator<Item = &'static Entry<K>> {
        self.tables.iter().flat_map(|table| K::entries(table))
    }
}

fn check_no_constant<K: Kind>(name: &str) -> Result<()> {
    match CONSTANTS.contains(&name) {
        true => Err(stays(name, K::NOUN, "planning has to make it a constant of the statement")),
        false => Ok(()),
    }
}

/// Decodes functions, which may be within others.
pub struct Decoder<'a> {
    functions: &'a Functions,
    depth: usize,
}

impl Decoder<'_> {
    /// Returns the meter of the statement that calls the functions.
    pub fn meter(&self) -> &Arc<Meter> {
        &self.functions.meter
    }

    /// # Errors
    /// 08P01 if there is no such function; `Unsupported` for one that stays on its node.
    pub fn function<K: Kind>(&self, encoded: Encoded) -> Result<Arc<K>> {
        match encoded {
            Encoded::Named { origin, name, is_ordered } => self.named(origin, &name, is_ordered),
            Encoded::Made { tag, parameters } => self.made(&tag, parameters),
        }
    }

    fn named<K: Kind>(&self, origin: Origin, name: &str, is_ordered: Option<bool>) -> Result<Arc<K>> {
        check_no_constant::<K>(name)?;
        let known = K::named(self.functions.registry(origin), name);
        let known = known.map_err(|_| malformed(format!("there is no {} {name:?}", K::NOUN)))?;
        let refused = self.functions.entries::<K>().find_map(|entry| match entry.way {
            Way::Refused(why) if entry.is_of(&known) => Some(why),
            _ => None,
        });
        if let Some(why) = refused {
            return Err(stays(name, K::NOUN, why));
        }
        let Some(is_met) = is_ordered else { return Ok(known) };
        let ordered = known.over_order(is_met);
        ordered.map(Arc::new).ok_or_else(|| malformed(format!("{name}() asks for no order of rows")))
    }

    fn made<K: Kind>(&self, tag: &str, parameters: Value) -> Result<Arc<K>> {
        if self.depth == DEPTH_MAX {
            return Err(malformed(format!("more than {DEPTH_MAX} functions are within each other")));
        }
        let entry = self.functions.entries::<K>().find(|entry| entry.tag() == Some(tag));
        let Some(Way::Made { decode, .. }) = entry.map(|entry| &entry.way) else {
            return Err(malformed(format!("there is no type {tag:?} of {}s", K::NOUN)));
        };
        let within = Decoder { functions: self.functions, depth: self.depth + 1 };
        decode(parameters, &within).map(Arc::new)
    }
}
