// Package check collects the validation errors of one object.
//
//	var ps check.Problems
//	ps.Subdomain(path.Child("nodeName"), pod.Spec.NodeName)
//	return ps.List
//
// Its functions hold the rules that kinds of several groups share. Messages are those of
// Kubernetes v1.36.
package check

import (
	"maps"
	"slices"
	"strings"

	"github.com/planekit/planekit/internal/invalid"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Problems collects the errors of one object. Check functions take it and the path of the field that
// they check.
type Problems struct {
	List field.ErrorList
}

// full reports that no further error is kept, so that none need be made.
func (ps *Problems) full() bool { return len(ps.List) >= invalid.Most }

// Add adds errors, as far as there is room: few of very many are shown.
func (ps *Problems) Add(errs ...*field.Error) {
	errs = errs[:min(len(errs), max(0, invalid.Most-len(ps.List)))]
	for _, e := range errs {
		e.BadValue = Internal(e.BadValue)
	}
	ps.List = append(ps.List, errs...)
}

// All adds a list of errors.
func (ps *Problems) All(errs field.ErrorList) { ps.Add(errs...) }

// Valid adds Invalid unless ok. Like the next three it makes its error only then: most values are
// right, and an error spells out its path. Nor is one made for which there is no room.
func (ps *Problems) Valid(ok bool, p *field.Path, value any, message string) {
	if !ok && !ps.full() {
		ps.Add(field.Invalid(p, value, message))
	}
}

// Allowed adds Forbidden unless ok.
func (ps *Problems) Allowed(ok bool, p *field.Path, message string) {
	if !ok && !ps.full() {
		ps.Add(field.Forbidden(p, message))
	}
}

// Unique adds Duplicate unless ok.
func (ps *Problems) Unique(ok bool, p *field.Path, value any) {
	if !ok && !ps.full() {
		ps.Add(field.Duplicate(p, value))
	}
}

// Present adds Required unless ok.
func (ps *Problems) Present(ok bool, p *field.Path, message string) {
	if !ok && !ps.full() {
		ps.Add(field.Required(p, message))
	}
}

// AtMost limits the length of a list.
func (ps *Problems) AtMost(p *field.Path, n, limit int) {
	if n > limit {
		ps.Add(field.TooMany(p, n, limit))
	}
}

// AtMostBytes limits the length of a value, which is not shown.
func (ps *Problems) AtMostBytes(p *field.Path, n, limit int) {
	if n > limit {
		ps.Add(field.TooLong(p, "", limit))
	}
}

// Required adds an error for an empty value and reports whether there is a value.
func (ps *Problems) Required(p *field.Path, value string) bool {
	if value == "" && !ps.full() {
		ps.Add(field.Required(p, ""))
	}
	return value != ""
}

// Each adds one Invalid for every message.
func (ps *Problems) Each(p *field.Path, value any, messages []string) {
	for _, m := range messages {
		ps.Valid(false, p, value, m)
	}
}

// NotNegative adds an error for a value below zero.
func (ps *Problems) NotNegative(p *field.Path, value int64) {
	ps.All(apivalidation.ValidateNonnegativeField(value, p))
}

// Immutable adds an error for a field that changed and may not.
func (ps *Problems) Immutable(p *field.Path, value, old any) {
	ps.All(apivalidation.ValidateImmutableField(value, old, p))
}

// DNSLabel requires a DNS-1123 label (63 characters).
func (ps *Problems) DNSLabel(p *field.Path, value string) {
	ps.Each(p, value, validation.IsDNS1123Label(value))
}

// Subdomain requires a DNS-1123 subdomain (253 characters): the name of most objects.
func (ps *Problems) Subdomain(p *field.Path, value string) {
	ps.Each(p, value, validation.IsDNS1123Subdomain(value))
}

// Named requires a reference to an object by name.
func (ps *Problems) Named(p *field.Path, value string) {
	if ps.Required(p, value) {
		ps.Subdomain(p, value)
	}
}

// Labels checks labels.
func (ps *Problems) Labels(p *field.Path, labels map[string]string) {
	ps.All(metavalidation.ValidateLabels(labels, p))
}

// Selector checks a label selector.
func (ps *Problems) Selector(p *field.Path, selector *metav1.LabelSelector) {
	if selector == nil {
		return
	}
	ps.All(metavalidation.ValidateLabels(selector.MatchLabels, p.Child("matchLabels")))
	for i, requirement := range selector.MatchExpressions { // one by one, so that the errors of all are not in memory
		ps.All(metavalidation.ValidateLabelSelectorRequirement(requirement, metavalidation.LabelSelectorValidationOptions{}, p.Child("matchExpressions").Index(i)))
	}
}

// Mode checks the permission bits of a file.
func (ps *Problems) Mode(p *field.Path, mode *int32) {
	if mode != nil && (*mode < 0 || *mode > 0777) {
		ps.Add(field.Invalid(p, *mode, "must be a number between 0 and 0777 (octal), both inclusive"))
	}
}

// OneOf requires value to be among allowed, which are quoted in this order.
func OneOf[T ~string](ps *Problems, p *field.Path, value T, allowed ...T) {
	if !slices.Contains(allowed, value) {
		ps.Add(field.NotSupported(p, value, allowed))
	}
}

// RequiredOneOf is OneOf for a required field.
func RequiredOneOf[T ~string](ps *Problems, p *field.Path, value T, allowed ...T) {
	if ps.Required(p, string(value)) {
		OneOf(ps, p, value, allowed...)
	}
}

// SortedKeys makes the order of messages about a map predictable.
func SortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// Join joins the texts of list with commas.
func Join[T ~string](list []T) string {
	var out []string
	for _, s := range list {
		out = append(out, string(s))
	}
	return strings.Join(out, ",")
}
