package pair

import (
	"os"
	"regexp"
	"testing"
)

// An Allowance is a difference that COMPATIBILITY.md names.
type Allowance struct {
	// row begins the row of COMPATIBILITY.md that has the reason.
	row string
	// request, if set, matches the request; want and got match what the servers answer.
	request, want, got *regexp.Regexp
	count              int
	byChance           bool
}

// Allowed returns the allowance of a row of COMPATIBILITY.md for requests and responses that the expressions match.
func Allowed(row, request, want, got string) *Allowance {
	return &Allowance{row: row, request: regexp.MustCompile(request), want: regexp.MustCompile(want), got: regexp.MustCompile(got)}
}

// ByChance marks a difference that does not appear in every comparison.
func (a *Allowance) ByChance() *Allowance {
	a.byChance = true
	return a
}

// Allowances holds the differences that one comparison allows.
type Allowances []*Allowance

// Allow reports whether a difference in the responses to r is one of those.
func (all Allowances) Allow(r Request, d Difference) bool {
	text := r.String() + " "
	for _, a := range all {
		if a.request.MatchString(text) && a.want.MatchString(d.Aspect+": "+d.Want) && a.got.MatchString(d.Aspect+": "+d.Got) {
			a.count++
			return true
		}
	}
	return false
}

// Used fails the test for each allowance that has matched nothing, unless that is by chance.
func (all Allowances) Used(t *testing.T) {
	t.Helper()
	for _, a := range all {
		if a.count == 0 && !a.byChance {
			t.Errorf("no difference is that of the row %q of COMPATIBILITY.md for %v, want one", a.row, a.request)
		}
	}
}

// Rows fails the test for each allowance that names no row of COMPATIBILITY.md.
func (all Allowances) Rows(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("../../COMPATIBILITY.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if !regexp.MustCompile("(?m)^\\| `?" + regexp.QuoteMeta(a.row)).Match(text) {
			t.Errorf("no row of COMPATIBILITY.md begins with %q, want one", a.row)
		}
	}
}
