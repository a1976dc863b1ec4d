package authz

// Requirement is one of the conditions that a selector is made of; all of them
// must hold. Its words are those of a SubjectAccessReview, in which "=" and "==" are
// In with one value, and "!=" is NotIn.
type Requirement struct {
	Key      string
	Operator Operator
	// Values are one for a field, one or more for a label, none for Exists and
	// DoesNotExist.
	Values []string
}

// Operator is how a requirement compares.
type Operator string

// The operators. Others, such as comparisons of numbers, are left out of Attributes:
// a request that is narrowed less is only harder to allow.
const (
	In           Operator = "In"
	NotIn        Operator = "NotIn"
	Exists       Operator = "Exists"
	DoesNotExist Operator = "DoesNotExist"
)

// FieldIs reports whether the request is for objects only whose field has the
// value.
func (a *Attributes) FieldIs(key, value string) bool {
	for i := range a.Fields {
		if r := &a.Fields[i]; r.Key == key && r.Operator == In && len(r.Values) == 1 && r.Values[0] == value {
			return true
		}
	}
	return false
}
