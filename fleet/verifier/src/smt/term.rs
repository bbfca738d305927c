//! Terms for the solver, each with bounds: conditions that the bounds decide are not passed to it.

use std::fmt::Write as _;
use std::rc::Rc;

use num_traits::{Signed as _, Zero as _};

use super::Asking;
use crate::error::VerifyError;
use crate::scenario::Exact;

/// A real number between two others.
#[derive(Debug, Clone)]
pub(super) struct Num {
    text: Rc<str>,
    pub(super) low: Exact,
    pub(super) high: Exact,
}

/// True, false, or left to the solver.
#[derive(Debug, Clone)]
pub(super) enum Cond {
    Is(bool),
    Open(Rc<str>),
}

impl Num {
    pub(super) fn known(value: Exact) -> Self {
        Self { text: literal(&value).into(), low: value.clone(), high: value }
    }

    pub(super) fn zero() -> Self {
        Self::known(Exact::zero())
    }

    /// The same number, which is known to lie in a narrower range wherever it counts.
    pub(super) fn within(mut self, low: &Exact, high: &Exact) -> Self {
        if !self.is_known() && self.low < *low {
            self.low.clone_from(low);
        }
        if !self.is_known() && self.high > *high {
            self.high.clone_from(high);
        }
        self
    }

    pub(super) fn is_known(&self) -> bool {
        self.low == self.high
    }
}

impl Cond {
    pub(super) const fn may(&self) -> bool {
        !matches!(self, Self::Is(false))
    }

    pub(super) const fn must(&self) -> bool {
        matches!(self, Self::Is(true))
    }

    fn text(&self) -> Rc<str> {
        match self {
            Self::Is(value) => value.to_string().into(),
            Self::Open(text) => Rc::clone(text),
        }
    }
}

fn literal(value: &Exact) -> String {
    let (numerator, denominator) = value.abs().into_raw();
    let positive = if value.is_integer() {
        format!("{numerator}.0")
    } else {
        format!("(/ {numerator}.0 {denominator}.0)")
    };
    if value.is_negative() { format!("(- {positive})") } else { positive }
}

/// A text in the solver's language, SMT-LIB 2.
#[derive(Debug)]
pub(super) struct Smt {
    pub(super) text: String,
    names: usize,
    asking: Asking,
}

impl Smt {
    pub(super) fn new(asking: &Asking) -> Self {
        Self { text: String::new(), names: 0, asking: *asking }
    }

    /// Whether there is time and room left: called once for each update, which has at most one term for each
    /// update.
    pub(super) fn check(&self) -> Result<(), VerifyError> {
        if self.text.len() > self.asking.room {
            return Err(VerifyError::TooLong(self.asking.room >> 20));
        }
        self.asking.deadline.check()
    }

    /// A number that the solver chooses.
    pub(super) fn unknown(&mut self, name: &str, low: Exact, high: Exact) -> Num {
        let (least, most) = (literal(&low), literal(&high));
        let _ = writeln!(self.text, "(declare-const {name} Real)\n(assert (<= {least} {name} {most}))");
        Num { text: name.into(), low, high }
    }

    /// A condition that the solver chooses.
    pub(super) fn choice(&mut self, name: &str) -> Cond {
        let _ = writeln!(self.text, "(declare-const {name} Bool)");
        Cond::Open(name.into())
    }

    pub(super) fn assert(&mut self, condition: &Cond) {
        let _ = writeln!(self.text, "(assert {})", condition.text());
    }

    /// States that two are equal under a condition.
    pub(super) fn same_if(&mut self, condition: &Cond, name: &Num, value: &Num) {
        let _ = writeln!(self.text, "(assert (=> {} (= {} {})))", condition.text(), name.text, value.text);
    }

    pub(super) fn alike(&mut self, name: &Cond, value: &Cond) {
        let _ = writeln!(self.text, "(assert (= {} {}))", name.text(), value.text());
    }

    /// A relation that holds if a group of constraints does; bounds decide nothing.
    pub(super) fn implied(&mut self, group: &str, a: &Num, relation: &str, b: &Num) {
        let _ = writeln!(self.text, "(assert (=> {group} ({relation} {} {})))", a.text, b.text);
    }

    /// A separate name for a number.
    pub(super) fn alias(&mut self, name: &str, number: &Num) -> String {
        let _ = writeln!(self.text, "(define-fun {name} () Real {})", number.text);
        name.to_owned()
    }

    fn name(&mut self, sort: &str, expression: &str) -> Rc<str> {
        self.names += 1;
        let name = format!("t{}", self.names);
        let _ = writeln!(self.text, "(define-fun {name} () {sort} {expression})");
        name.into()
    }

    fn number(&mut self, expression: &str, low: Exact, high: Exact) -> Num {
        if low == high && self.asking.fold {
            return Num::known(low);
        }
        Num { text: self.name("Real", expression), low, high }
    }

    fn cond(&mut self, expression: &str) -> Cond {
        Cond::Open(self.name("Bool", expression))
    }

    pub(super) fn lt(&mut self, a: &Num, b: &Num) -> Cond {
        if self.asking.fold && a.high < b.low {
            return Cond::Is(true);
        }
        if self.asking.fold && a.low >= b.high {
            return Cond::Is(false);
        }
        self.cond(&format!("(< {} {})", a.text, b.text))
    }

    pub(super) fn le(&mut self, a: &Num, b: &Num) -> Cond {
        let greater = self.lt(b, a);
        self.not(&greater)
    }

    pub(super) fn not(&mut self, a: &Cond) -> Cond {
        match a {
            Cond::Is(value) => Cond::Is(!value),
            Cond::Open(text) => Cond::Open(format!("(not {text})").into()),
        }
    }

    pub(super) fn all(&mut self, of: Vec<Cond>) -> Cond {
        self.join("and", of, false)
    }

    pub(super) fn any(&mut self, of: Vec<Cond>) -> Cond {
        self.join("or", of, true)
    }

    fn join(&mut self, how: &str, of: Vec<Cond>, decides: bool) -> Cond {
        let mut open = Vec::new();
        for condition in of {
            match condition {
                Cond::Is(value) if value == decides => return Cond::Is(decides),
                Cond::Is(_) => {}
                Cond::Open(text) => open.push(text),
            }
        }
        match open.as_slice() {
            [] => Cond::Is(!decides),
            [one] => Cond::Open(Rc::clone(one)),
            _ => self.cond(&format!("({how} {})", open.join(" "))),
        }
    }

    /// True if fewer than `limit` of them are.
    pub(super) fn fewer(&mut self, of: &[Cond], limit: usize) -> Cond {
        let certain = of.iter().filter(|condition| condition.must()).count();
        let open: Vec<Rc<str>> =
            of.iter().filter(|condition| condition.may() && !condition.must()).map(Cond::text).collect();
        if certain >= limit {
            Cond::Is(false)
        } else if certain + open.len() < limit {
            Cond::Is(true)
        } else {
            self.cond(&format!("((_ at-most {}) {})", limit - 1 - certain, open.join(" ")))
        }
    }

    pub(super) fn add(&mut self, a: &Num, b: &Num) -> Num {
        if a.is_known() && a.low.is_zero() {
            return b.clone();
        }
        if b.is_known() && b.low.is_zero() {
            return a.clone();
        }
        self.number(&format!("(+ {} {})", a.text, b.text), &a.low + &b.low, &a.high + &b.high)
    }

    pub(super) fn sub(&mut self, a: &Num, b: &Num) -> Num {
        if b.is_known() && b.low.is_zero() {
            return a.clone();
        }
        self.number(&format!("(- {} {})", a.text, b.text), &a.low - &b.high, &a.high - &b.low)
    }

    pub(super) fn sum(&mut self, of: &[Num]) -> Num {
        let known: Exact = of.iter().filter(|num| num.is_known()).map(|num| &num.low).sum();
        let open: Vec<&Num> = of.iter().filter(|num| !num.is_known()).collect();
        if open.is_empty() {
            return Num::known(known);
        }
        let (low, high) = open
            .iter()
            .fold((known.clone(), known.clone()), |(low, high), num| (low + &num.low, high + &num.high));
        let texts: Vec<&str> = open.iter().map(|num| &*num.text).collect();
        self.number(&format!("(+ {} {})", literal(&known), texts.join(" ")), low, high)
    }

    pub(super) fn scale(&mut self, a: &Num, factor: &Exact) -> Num {
        self.product(a, &Num::known(factor.clone()))
    }

    pub(super) fn product(&mut self, a: &Num, b: &Num) -> Num {
        let corners = [&a.low * &b.low, &a.low * &b.high, &a.high * &b.low, &a.high * &b.high];
        let [first, rest @ ..] = &corners;
        let (low, high) = rest.iter().fold((first, first), |(low, high), corner| {
            (if corner < low { corner } else { low }, if corner > high { corner } else { high })
        });
        let (low, high) = (low.clone(), high.clone());
        self.number(&format!("(* {} {})", a.text, b.text), low, high)
    }

    pub(super) fn ite(&mut self, condition: &Cond, yes: &Num, no: &Num) -> Num {
        match condition {
            Cond::Is(true) => yes.clone(),
            Cond::Is(false) => no.clone(),
            Cond::Open(_) if yes.text == no.text => yes.clone(),
            Cond::Open(text) => {
                let low = if yes.low < no.low { &yes.low } else { &no.low };
                let high = if yes.high > no.high { &yes.high } else { &no.high };
                self.number(&format!("(ite {text} {} {})", yes.text, no.text), low.clone(), high.clone())
            }
        }
    }

    pub(super) fn max(&mut self, a: &Num, b: &Num) -> Num {
        let less = self.lt(a, b);
        let mut greater = self.ite(&less, b, a);
        // Both bounds count.
        for bound in [&a.low, &b.low] {
            if greater.low < *bound && !greater.is_known() {
                greater.low = bound.clone();
            }
        }
        greater
    }
}
