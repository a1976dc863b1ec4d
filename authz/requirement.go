package authz

// Requirement is one condition of a selector; all conditions must hold. The operators are those of
// a SubjectAccessReview, where "=" and "==" become In with one value, and "!=" becomes NotIn.
type Requirement struct {
	Key      string
	Operator Operator
	// Values has one value for a field, one or more for a label, and none for Exists and
	// DoesNotExist.
	Values []string
}

// Operator is the comparison of a requirement.
type Operator string

// The operators. Requirements with other operators, such as comparisons of numbers, are left out of
// Attributes: a wider request is only harder to allow.
const (
	In           Operator = "In"
	NotIn        Operator = "NotIn"
	Exists       Operator = "Exists"
	DoesNotExist Operator = "DoesNotExist"
)

// FieldIs reports whether the request is restricted to objects whose field has the value.
func (a *Attributes) FieldIs(key, value string) bool {
	for i := range a.Fields {
		if r := &a.Fields[i]; r.Key == key && r.Operator == In && len(r.Values) == 1 && r.Values[0] == value {
			return true
		}
	}
	return false
}
