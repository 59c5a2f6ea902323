//! Common methods of functions that wrap another one, in a field `inner`, and of aggregates over frames.

/// Makes two values of a type equal when a part of them is.
macro_rules! equal_by {
    ($type:ty: $($part:tt)+) => {
        impl PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                self.$($part)+ == other.$($part)+
            }
        }

        impl Eq for $type {}

        impl std::hash::Hash for $type {
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                std::hash::Hash::hash(&self.$($part)+, state);
            }
        }
    };
}

/// The methods of `ScalarUDFImpl`, and of aggregates and window functions, that are those of the function
/// within.
macro_rules! as_within {
    ($($method:ident),+) => {
        $($crate::wrapped::as_within!(@ $method);)+
    };
    (@ name) => {
        fn name(&self) -> &str {
            self.inner.name()
        }
    };
    (@ aliases) => {
        fn aliases(&self) -> &[String] {
            self.inner.aliases()
        }
    };
    (@ schema_name) => {
        fn schema_name(&self, args: &[datafusion::logical_expr::Expr]) -> datafusion::error::Result<String> {
            self.inner.inner().schema_name(args)
        }
    };
    (@ signature) => {
        fn signature(&self) -> &datafusion::logical_expr::Signature {
            self.inner.signature()
        }
    };
    (@ coerce_types) => {
        fn coerce_types(
            &self,
            types: &[arrow::datatypes::DataType],
        ) -> datafusion::error::Result<Vec<arrow::datatypes::DataType>> {
            self.inner.coerce_types(types)
        }
    };
    (@ return_type) => {
        fn return_type(
            &self,
            types: &[arrow::datatypes::DataType],
        ) -> datafusion::error::Result<arrow::datatypes::DataType> {
            self.inner.return_type(types)
        }
    };
    (@ return_field_from_args) => {
        fn return_field_from_args(
            &self,
            args: datafusion::logical_expr::ReturnFieldArgs<'_>,
        ) -> datafusion::error::Result<arrow::datatypes::FieldRef> {
            self.inner.return_field_from_args(args)
        }
    };
    (@ sort_options) => {
        fn sort_options(&self) -> Option<datafusion::common::arrow::compute::SortOptions> {
            self.inner.sort_options()
        }
    };
    (@ reverse_expr) => {
        fn reverse_expr(&self) -> datafusion::logical_expr::ReversedUDWF {
            match self.inner.reverse_expr() {
                datafusion::logical_expr::ReversedUDWF::Reversed(inner) => {
                    let reversed = datafusion::logical_expr::WindowUDF::from(Self { inner });
                    datafusion::logical_expr::ReversedUDWF::Reversed(std::sync::Arc::new(reversed))
                }
                other => other,
            }
        }
    };
}

/// The methods of an `Accumulator` that rows come to and leave again, for the frames of a window, and that
/// has no parts.
macro_rules! over_frames {
    () => {
        fn supports_retract_batch(&self) -> bool {
            true
        }

        fn state(&mut self) -> datafusion::error::Result<Vec<datafusion::common::ScalarValue>> {
            Err(datafusion::common::internal_datafusion_err!("a frame is not made of parts"))
        }

        fn merge_batch(&mut self, _: &[arrow::array::ArrayRef]) -> datafusion::error::Result<()> {
            Err(datafusion::common::internal_datafusion_err!("a frame is not made of parts"))
        }
    };
}

pub(crate) use {as_within, equal_by, over_frames};
