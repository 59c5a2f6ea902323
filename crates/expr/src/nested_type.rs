//! What types of lists and structures are made of.

use arrow::datatypes::{DataType, FieldRef};

/// Returns the field of a list's elements.
pub fn element(of: &DataType) -> Option<&FieldRef> {
    match of {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => Some(field),
        _ => None,
    }
}

/// Says whether a type is one of lists.
pub fn is_list(of: &DataType) -> bool {
    element(of).is_some()
}

/// Says whether a type is one of structures, or of lists of them.
pub fn has_structure(of: &DataType) -> bool {
    matches!(of, DataType::Struct(_)) || element(of).is_some_and(|field| has_structure(field.data_type()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{Field, Fields};
    use std::sync::Arc;

    #[test]
    fn lists_of_structures_have_structures() {
        let list = |of: DataType| DataType::LargeList(Arc::new(Field::new("item", of, true)));
        let structure = DataType::Struct(Fields::empty());
        assert!(has_structure(&structure) && has_structure(&list(list(structure.clone()))));
        assert!(!has_structure(&DataType::Int64) && !has_structure(&list(DataType::Int64)));
        assert_eq!(element(&list(structure.clone())).map(|field| field.data_type()), Some(&structure));
        assert!(is_list(&list(structure.clone())) && !is_list(&structure));
    }
}
