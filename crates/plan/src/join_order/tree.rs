//! A tree of inner joins as its relations and what relates them, and back.

use super::enumerate::{Set, Tree, is_connected, members};
use super::estimate::{self, Measures, Values, divided, values};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinConstraint, NullEquality, TableReference};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, Join, JoinType, LogicalPlan, Operator, Projection,
};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Relations that are too many for a set, and that have one order.
const RELATIONS_MAX: usize = 60;
const RELATIONS_MIN: usize = 3;

/// A tree of inner joins, taken apart.
#[derive(Debug)]
pub struct Joins {
    pub relations: Vec<LogicalPlan>,
    /// The order as it was.
    pub written: Tree,
    /// Columns that are all equal, of one type, each with its relation: at least two.
    classes: Vec<Vec<(usize, Column)>>,
    /// Other equalities.
    equalities: Vec<Equality>,
    /// Any other conditions, with the relations that they are about: at least two.
    conditions: Vec<(Set, Expr)>,
}

#[derive(Debug)]
struct Equality {
    left: Expr,
    right: Expr,
    left_set: Set,
    right_set: Set,
}

impl Equality {
    fn set(&self) -> Set {
        self.left_set | self.right_set
    }
}

/// What is estimated of the relations of a tree.
#[derive(Debug)]
pub struct Estimates {
    rows: Vec<f64>,
    /// The values of the columns of classes, and the relations of each class.
    classes: Vec<Vec<Values>>,
    sets: Vec<Set>,
    /// Relations by their rows, most first.
    by_rows: Vec<usize>,
}

/// What the nodes of a tree have, as they are walked through.
#[derive(Default)]
struct Parts {
    relations: Vec<LogicalPlan>,
    equalities: Vec<(Expr, Expr)>,
    conditions: Vec<Expr>,
}

impl Parts {
    fn take(&mut self, node: &LogicalPlan) -> Tree {
        match node {
            LogicalPlan::Join(join) if is_plain(join) => {
                let (left, right) = (self.take(&join.left), self.take(&join.right));
                self.equalities.extend(join.on.iter().cloned());
                self.add(join.filter.as_ref());
                Tree::join(left, right)
            }
            LogicalPlan::Filter(filter)
                if is_tree(&filter.input) && is_infallible(&filter.predicate, filter.input.schema()) =>
            {
                self.add(Some(&filter.predicate));
                self.take(&filter.input)
            }
            LogicalPlan::Projection(projection) if is_tree(node) => self.take(&projection.input),
            other => {
                self.relations.push(other.clone());
                Tree::Relation(self.relations.len() - 1)
            }
        }
    }

    fn add(&mut self, condition: Option<&Expr>) {
        self.conditions.extend(condition.into_iter().flat_map(split_conjunction).cloned());
    }
}

/// Says whether a node is a join, or passes the columns of one on.
pub fn is_tree(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Join(join) => is_plain(join),
        LogicalPlan::Filter(filter) => {
            is_tree(&filter.input) && is_infallible(&filter.predicate, filter.input.schema())
        }
        LogicalPlan::Projection(projection) => {
            projection.expr.iter().all(|expr| matches!(expr, Expr::Column(_))) && is_tree(&projection.input)
        }
        _ => false,
    }
}

/// Says whether a join may change its place among others: its conditions would be asked of other
/// rows, and must not fail for any.
fn is_plain(join: &Join) -> bool {
    join.join_type == JoinType::Inner
        && join.null_equality == NullEquality::NullEqualsNothing
        && !join.null_aware
        && join.on.iter().all(|(left, right)| {
            is_infallible(left, join.left.schema()) && is_infallible(right, join.right.schema())
        })
        && join.filter.as_ref().is_none_or(|filter| is_infallible(filter, &join.schema))
}

/// Says whether an expression has a value for all rows, which is the same each time.
fn is_infallible(expr: &Expr, schema: &DFSchema) -> bool {
    let mut infallible = true;
    let visited = expr.apply(|part| {
        infallible &= match part {
            Expr::BinaryExpr(BinaryExpr { op, .. }) => matches!(
                op,
                Operator::Eq
                    | Operator::NotEq
                    | Operator::Lt
                    | Operator::LtEq
                    | Operator::Gt
                    | Operator::GtEq
                    | Operator::IsDistinctFrom
                    | Operator::IsNotDistinctFrom
                    | Operator::And
                    | Operator::Or
            ),
            Expr::Cast(cast) => {
                cast.expr.get_type(schema).is_ok_and(|from| widens(&from, cast.field.data_type()))
            }
            Expr::Column(_)
            | Expr::Literal(..)
            | Expr::Not(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNotFalse(_)
            | Expr::IsNotUnknown(_)
            | Expr::InList(_)
            | Expr::Between(_) => true,
            _ => false,
        };
        Ok(if infallible { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    infallible && visited.is_ok()
}

/// Says whether each integer of a type is one of another.
fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32};
    match to {
        Int64 => matches!(from, Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32),
        Int32 => matches!(from, Int8 | Int16 | UInt8 | UInt16),
        Int16 => matches!(from, Int8 | UInt8),
        _ => false,
    }
}

impl Joins {
    /// Takes a tree apart; `None` for one that has no other order.
    pub fn take_apart(node: &LogicalPlan) -> Option<Self> {
        let mut parts = Parts::default();
        let written = parts.take(node);
        let count = parts.relations.len();
        if !(RELATIONS_MIN..=RELATIONS_MAX).contains(&count) || !has_own_columns(&parts.relations) {
            return None;
        }
        let mut joins = Self {
            relations: parts.relations,
            written,
            classes: Vec::new(),
            equalities: Vec::new(),
            conditions: Vec::new(),
        };
        for (left, right) in parts.equalities {
            joins.add_equality(left, right)?;
        }
        for condition in parts.conditions {
            match condition {
                Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
                    joins.add_equality(*left, *right)?;
                }
                other => joins.add_condition(other)?,
            }
        }
        joins.tell_members_apart()?;
        is_connected(&joins.neighbours()).then_some(joins)
    }

    /// Leaves one column of each relation in a class: that the others equal it is decided in the
    /// relation.
    fn tell_members_apart(&mut self) -> Option<()> {
        for class in std::mem::take(&mut self.classes) {
            let mut members: Vec<(usize, Column)> = Vec::with_capacity(class.len());
            for (relation, column) in class {
                match members.last() {
                    Some((last, first)) if *last == relation => {
                        let equal = Expr::Column(first.clone()).eq(Expr::Column(column));
                        self.add_condition(equal)?;
                    }
                    _ => members.push((relation, column)),
                }
            }
            self.classes.push(members);
        }
        Some(())
    }

    fn add_equality(&mut self, left: Expr, right: Expr) -> Option<()> {
        let (left_set, right_set) = (self.relations_of(&left)?, self.relations_of(&right)?);
        if left_set == 0 || right_set == 0 || left_set & right_set != 0 {
            return self.add_condition(left.eq(right));
        }
        match (&left, &right) {
            (Expr::Column(one), Expr::Column(other)) if self.is_transitive(one, other)? => {
                let (one, other) = (one.clone(), other.clone());
                self.unite(
                    (left_set.trailing_zeros() as usize, one),
                    (right_set.trailing_zeros() as usize, other),
                );
            }
            _ => self.equalities.push(Equality { left, right, left_set, right_set }),
        }
        Some(())
    }

    /// A condition about one relation becomes part of it.
    fn add_condition(&mut self, condition: Expr) -> Option<()> {
        let set = self.relations_of(&condition)?;
        if set.count_ones() > 1 {
            self.conditions.push((set, condition));
            return Some(());
        }
        let place = if set == 0 { 0 } else { set.trailing_zeros() as usize };
        let relation = std::mem::take(&mut self.relations[place]);
        let filter = Filter::try_new(condition, Arc::new(relation)).ok()?;
        self.relations[place] = LogicalPlan::Filter(filter);
        Some(())
    }

    /// Returns the relations whose columns an expression has; `None` for a column of none.
    fn relations_of(&self, expr: &Expr) -> Option<Set> {
        expr.column_refs().into_iter().try_fold(0, |set, column| Some(set | 1 << self.relation_of(column)?))
    }

    fn relation_of(&self, column: &Column) -> Option<usize> {
        self.relations.iter().position(|relation| relation.schema().iter().any(|of| is_named(column, of)))
    }

    /// Says whether what equals one of two columns, and the other, is equal.
    fn is_transitive(&self, one: &Column, other: &Column) -> Option<bool> {
        let type_of = |column: &Column| {
            let schema = self.relations[self.relation_of(column)?].schema();
            Expr::Column(column.clone()).get_type(schema).ok()
        };
        let (one, other) = (type_of(one)?, type_of(other)?);
        let is_exact = one.is_integer()
            || one.is_string()
            || matches!(
                one,
                DataType::Boolean
                    | DataType::Date32
                    | DataType::Decimal128(..)
                    | DataType::Timestamp(..)
                    | DataType::FixedSizeBinary(_)
            );
        Some(is_exact && one == other)
    }

    fn unite(&mut self, one: (usize, Column), other: (usize, Column)) {
        let place = |classes: &[Vec<(usize, Column)>], member: &(usize, Column)| {
            classes.iter().position(|class| class.contains(member))
        };
        match (place(&self.classes, &one), place(&self.classes, &other)) {
            (None, None) => self.classes.push(vec![one, other]),
            (Some(known), None) => self.classes[known].push(other),
            (None, Some(known)) => self.classes[known].push(one),
            (Some(first), Some(second)) if first != second => {
                let (first, second) = (first.min(second), first.max(second));
                let more = self.classes.remove(second);
                self.classes[first].extend(more);
            }
            _ => {}
        }
        self.classes.iter_mut().for_each(|class| class.sort_by_key(|(relation, _)| *relation));
    }

    /// Returns the relations that each can be joined with: by equal values, or, where that leaves
    /// some apart, by any condition.
    pub fn neighbours(&self) -> Vec<Set> {
        let of_two = |set: &Set| set.count_ones() == 2;
        let mut neighbours = vec![0; self.relations.len()];
        let equal = self.classes.iter().map(|class| set_of(class));
        equal
            .chain(self.equalities.iter().map(Equality::set).filter(of_two))
            .for_each(|set| connect(&mut neighbours, set));
        if !is_connected(&neighbours) {
            let compared = self.conditions.iter().map(|(set, _)| *set).filter(of_two);
            compared.for_each(|set| connect(&mut neighbours, set));
        }
        neighbours
    }

    /// Says whether two sets are joined by equal values.
    pub fn has_keys(&self, left: Set, right: Set) -> bool {
        let spans = |class: &Vec<(usize, Column)>| {
            let set = set_of(class);
            set & left != 0 && set & right != 0
        };
        self.classes.iter().any(spans)
            || self.equalities.iter().any(|equality| equality.sides(left, right).is_some())
    }

    pub fn estimates(&self, measures: &Measures) -> Estimates {
        let rows: Vec<f64> =
            self.relations.iter().map(|relation| estimate::rows(relation, measures).max(1.0)).collect();
        let of_member =
            |(relation, column): &(usize, Column)| values(&self.relations[*relation], column, measures);
        let classes = self.classes.iter().map(|class| class.iter().map(of_member).collect()).collect();
        let mut by_rows: Vec<usize> = (0..rows.len()).collect();
        by_rows.sort_by(|one, other| rows[*other].total_cmp(&rows[*one]));
        let sets = self.classes.iter().map(|class| set_of(class)).collect();
        Estimates { rows, classes, sets, by_rows }
    }

    /// Estimates the rows of the join of some relations. They are taken one after the other, so that
    /// the estimate is the same for each order of the joins.
    pub fn rows(&self, set: Set, estimates: &Estimates) -> f64 {
        let (mut rows, mut known): (f64, Set) = (1.0, 0);
        for number in estimates.by_rows.iter().copied().filter(|number| set >> number & 1 == 1) {
            rows *= estimates.rows[number] / self.values_between(known, number, estimates);
            known |= 1 << number;
            let is_new = |of: Set| of & !known == 0 && of >> number & 1 == 1;
            for equality in self.equalities.iter().filter(|equality| is_new(equality.set())) {
                let values = |set: Set| members(set).map(|place| estimates.rows[place]).fold(1.0, f64::max);
                rows /= values(equality.left_set).min(values(equality.right_set));
            }
            rows *=
                SHARE_OF_CONDITION.powi(self.conditions.iter().filter(|(of, _)| is_new(*of)).count() as i32);
        }
        rows.max(1.0)
    }

    /// Returns by how many values the pairs of a relation with others are divided: for one other
    /// after the other, those first that have most columns in common with it.
    fn values_between(&self, known: Set, number: usize, estimates: &Estimates) -> f64 {
        let mut classes: Vec<usize> = (0..self.classes.len())
            .filter(|class| {
                let set = estimates.sets[*class];
                set >> number & 1 == 1 && set & known != 0
            })
            .collect();
        let of = |class: usize, relation: usize| {
            let place = self.classes[class].iter().position(|(of, _)| *of == relation)?;
            Some(estimates.classes[class][place])
        };
        let mut product = 1.0;
        while !classes.is_empty() {
            let mut common: BTreeMap<usize, usize> = BTreeMap::new();
            for class in &classes {
                for other in members(estimates.sets[*class] & known) {
                    *common.entry(other).or_default() += 1;
                }
            }
            let most = common.into_iter().rev().max_by_key(|(_, columns)| *columns);
            let Some((other, _)) = most else { break };
            let pair = |class: &usize| Some((of(*class, number)?, of(*class, other)?));
            let keys: Vec<(Values, Values)> = classes.iter().filter_map(pair).collect();
            classes.retain(|class| estimates.sets[*class] >> other & 1 == 0);
            product *= divided(&keys);
        }
        product
    }

    /// Returns the joins in an order, with the columns of a schema.
    ///
    /// # Errors
    /// Those of DataFusion, where columns have the same name.
    pub fn rebuilt(&self, order: &Tree, schema: &DFSchema) -> Result<LogicalPlan> {
        let output: Vec<Column> = schema.iter().map(Column::from).collect();
        let plan = self.joined(order, &output.iter().cloned().collect())?;
        if plan.schema().iter().map(Column::from).eq(output.iter().cloned()) {
            return Ok(plan);
        }
        projected(plan, output)
    }

    fn joined(&self, order: &Tree, output: &HashSet<Column>) -> Result<LogicalPlan> {
        let (one, other) = match order {
            Tree::Relation(number) => return Ok(self.relations[*number].clone()),
            Tree::Join(one, other) => (one, other),
        };
        let (left, right) = (self.joined(one, output)?, self.joined(other, output)?);
        let (left_set, right_set) = (one.set(), other.set());
        let (on, filter) = self.conditions_between(left_set, right_set);
        if on.is_empty() && filter.is_none() {
            return Err(DataFusionError::Internal("a join without a condition".into()));
        }
        let join = Join::try_new(
            Arc::new(left),
            Arc::new(right),
            on,
            filter,
            JoinType::Inner,
            JoinConstraint::On,
            NullEquality::NullEqualsNothing,
            false,
        )?;
        let kept = self.needed_after(left_set | right_set, output);
        let columns: Vec<Column> = join.schema.iter().map(Column::from).collect();
        let some: Vec<Column> = columns.iter().filter(|column| kept.contains(column)).cloned().collect();
        let join = LogicalPlan::Join(join);
        if some.len() == columns.len() { Ok(join) } else { projected(join, some) }
    }

    /// Returns what joins two sets: pairs of equal keys, and other conditions.
    fn conditions_between(&self, left: Set, right: Set) -> (Vec<(Expr, Expr)>, Option<Expr>) {
        let mut on = Vec::new();
        let column = |member: &(usize, Column)| Expr::Column(member.1.clone());
        for class in &self.classes {
            if let (Some(one), Some(other)) = (first_in(class, left), first_in(class, right)) {
                on.push((column(one), column(other)));
            }
        }
        let is_new = |set: Set| set & !(left | right) == 0 && set & !left != 0 && set & !right != 0;
        let mut conditions = Vec::new();
        for equality in self.equalities.iter().filter(|equality| is_new(equality.set())) {
            match equality.sides(left, right) {
                Some((one, other)) => on.push((one.clone(), other.clone())),
                None => conditions.push(equality.left.clone().eq(equality.right.clone())),
            }
        }
        conditions.extend(
            self.conditions.iter().filter(|(set, _)| is_new(*set)).map(|(_, condition)| condition.clone()),
        );
        (on, conjunction(conditions))
    }

    /// Returns the columns that are read after some relations are joined.
    fn needed_after(&self, set: Set, output: &HashSet<Column>) -> HashSet<Column> {
        let mut needed = output.clone();
        for class in self.classes.iter().filter(|class| set_of(class) & !set != 0) {
            needed.extend(first_in(class, set).map(|(_, column)| column.clone()));
        }
        for equality in self.equalities.iter().filter(|equality| equality.set() & !set != 0) {
            needed.extend(equality.left.column_refs().into_iter().cloned());
            needed.extend(equality.right.column_refs().into_iter().cloned());
        }
        for (_, condition) in self.conditions.iter().filter(|(of, _)| of & !set != 0) {
            needed.extend(condition.column_refs().into_iter().cloned());
        }
        needed
    }
}

/// The share of pairs that pass a condition that is not of equal values.
const SHARE_OF_CONDITION: f64 = 0.3;

impl Equality {
    /// Returns the expressions of the left and of the right side.
    fn sides(&self, left: Set, right: Set) -> Option<(&Expr, &Expr)> {
        if self.left_set & !left == 0 && self.right_set & !right == 0 {
            Some((&self.left, &self.right))
        } else if self.left_set & !right == 0 && self.right_set & !left == 0 {
            Some((&self.right, &self.left))
        } else {
            None
        }
    }
}

/// Says whether a field of a schema has exactly the name of a column.
fn is_named(column: &Column, (qualifier, field): (Option<&TableReference>, &FieldRef)) -> bool {
    column.relation.as_ref() == qualifier && column.name == *field.name()
}

fn set_of(class: &[(usize, Column)]) -> Set {
    class.iter().fold(0, |set, (relation, _)| set | 1 << relation)
}

/// Returns the member that stands for those of a set, all of which are equal.
fn first_in(class: &[(usize, Column)], set: Set) -> Option<&(usize, Column)> {
    class.iter().find(|(relation, _)| set >> relation & 1 == 1)
}

/// Makes each relation of a set a neighbour of the others.
fn connect(neighbours: &mut [Set], set: Set) {
    for number in members(set) {
        neighbours[number] |= set & !(1 << number);
    }
}

/// Says whether no two relations have a column of the same name.
fn has_own_columns(relations: &[LogicalPlan]) -> bool {
    let mut known = HashSet::new();
    let columns = relations.iter().flat_map(|relation| relation.schema().iter().map(Column::from));
    columns.into_iter().all(|column| known.insert(column))
}

fn projected(plan: LogicalPlan, columns: Vec<Column>) -> Result<LogicalPlan> {
    let columns = columns.into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
}
