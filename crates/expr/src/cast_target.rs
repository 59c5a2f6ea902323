//! What casts that are functions have in common: their type is a parameter, which no argument shows.

use crate::portable::PortableField;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ReturnFieldArgs};
use std::sync::Arc;

/// What is cast to, and whether values that cannot be cast become NULL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CastTarget {
    field: FieldRef,
    safe: bool,
}

impl CastTarget {
    pub(crate) fn new(field: FieldRef, safe: bool) -> Self {
        Self { field, safe }
    }

    pub(crate) fn field(&self) -> &Field {
        &self.field
    }

    pub(crate) fn data_type(&self) -> &DataType {
        self.field.data_type()
    }

    pub(crate) fn is_safe(&self) -> bool {
        self.safe
    }

    /// Returns a name that differs from the operand's, which may be there, too.
    pub(crate) fn schema_name(&self, function: &str, operand: &Expr) -> String {
        format!("{function}({} AS {})", operand.schema_name(), self.data_type())
    }

    pub(crate) fn return_field(&self, function: &str, args: &ReturnFieldArgs<'_>) -> FieldRef {
        let nullable = self.safe || args.arg_fields.iter().any(|field| field.is_nullable());
        Arc::new(self.field.as_ref().clone().with_name(function).with_nullable(nullable))
    }

    /// # Errors
    /// `Unsupported` for a type that cannot be told.
    pub(crate) fn parameters(&self) -> Result<Parameters> {
        Ok((self.field().try_into()?, self.safe))
    }

    /// # Errors
    /// `Protocol` for what tells no type.
    pub(crate) fn from_parameters((field, safe): Parameters) -> Result<Self> {
        Ok(Self::new(Arc::new(field.try_into()?), safe))
    }
}

/// A target as it is sent to other nodes.
pub(crate) type Parameters = (PortableField, bool);

/// Says how a function that is a cast `to` a target, and of which that is all there is to tell, is sent to
/// other nodes.
macro_rules! portable_cast {
    ($function:ty: $tag:literal) => {
        impl crate::portable::Portable for $function {
            type Function = datafusion::logical_expr::ScalarUDF;

            const TAG: &'static str = $tag;

            type Parameters = crate::cast_target::Parameters;

            fn parameters(
                &self,
                _: &crate::portable::Functions,
            ) -> datafusion::error::Result<crate::cast_target::Parameters> {
                self.to.parameters()
            }

            fn from_parameters(
                parameters: crate::cast_target::Parameters,
                _: &crate::portable::Decoder<'_>,
            ) -> datafusion::error::Result<Self> {
                Ok(Self::new(crate::cast_target::CastTarget::from_parameters(parameters)?))
            }
        }
    };
}

/// The methods of `ScalarUDFImpl` that are the same of each function that casts `to` a target.
macro_rules! as_cast {
    () => {
        fn signature(&self) -> &datafusion::logical_expr::Signature {
            &self.signature
        }

        fn return_type(
            &self,
            _: &[arrow::datatypes::DataType],
        ) -> datafusion::error::Result<arrow::datatypes::DataType> {
            Ok(self.to.data_type().clone())
        }

        fn return_field_from_args(
            &self,
            args: datafusion::logical_expr::ReturnFieldArgs<'_>,
        ) -> datafusion::error::Result<arrow::datatypes::FieldRef> {
            Ok(self.to.return_field(self.name(), &args))
        }
    };
}

pub(crate) use {as_cast, portable_cast};
