package kube

import (
	"maps"
	"slices"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// problems gathers what is wrong with one object. The check functions of this
// package take one and the path they look at, and add to it.
type problems struct {
	list field.ErrorList
}

func (ps *problems) add(errs ...*field.Error) { ps.list = append(ps.list, errs...) }

func (ps *problems) all(errs field.ErrorList) { ps.list = append(ps.list, errs...) }

// The next four add an error of their kind unless ok. They make it only then:
// most of what is checked is right, and an error spells out its path.

func (ps *problems) valid(ok bool, p *field.Path, value any, message string) {
	if !ok {
		ps.add(field.Invalid(p, value, message))
	}
}

func (ps *problems) allowed(ok bool, p *field.Path, message string) {
	if !ok {
		ps.add(field.Forbidden(p, message))
	}
}

func (ps *problems) unique(ok bool, p *field.Path, value any) {
	if !ok {
		ps.add(field.Duplicate(p, value))
	}
}

func (ps *problems) present(ok bool, p *field.Path, message string) {
	if !ok {
		ps.add(field.Required(p, message))
	}
}

// atMost limits the length of a list.
func (ps *problems) atMost(p *field.Path, n, limit int) {
	if n > limit {
		ps.add(field.TooMany(p, n, limit))
	}
}

// atMostBytes limits the length of a value, which is not shown.
func (ps *problems) atMostBytes(p *field.Path, n, limit int) {
	if n > limit {
		ps.add(field.TooLong(p, "", limit))
	}
}

// required complains about an empty value and reports whether there is one.
func (ps *problems) required(p *field.Path, value string) bool {
	if value == "" {
		ps.add(field.Required(p, ""))
	}
	return value != ""
}

// each adds one Invalid for every message.
func (ps *problems) each(p *field.Path, value any, messages []string) {
	for _, m := range messages {
		ps.add(field.Invalid(p, value, m))
	}
}

func (ps *problems) notNegative(p *field.Path, value int64) {
	ps.all(apivalidation.ValidateNonnegativeField(value, p))
}

// immutable complains where a field that may never change did.
func (ps *problems) immutable(p *field.Path, value, old any) {
	ps.all(apivalidation.ValidateImmutableField(value, old, p))
}

// dnsLabel requires a DNS-1123 label (63 characters).
func (ps *problems) dnsLabel(p *field.Path, value string) {
	ps.each(p, value, validation.IsDNS1123Label(value))
}

// subdomain requires a DNS-1123 subdomain (253 characters): the name of most objects.
func (ps *problems) subdomain(p *field.Path, value string) {
	ps.each(p, value, validation.IsDNS1123Subdomain(value))
}

// named requires a reference to an object by name.
func (ps *problems) named(p *field.Path, value string) {
	if ps.required(p, value) {
		ps.subdomain(p, value)
	}
}

func (ps *problems) labels(p *field.Path, labels map[string]string) {
	ps.all(metavalidation.ValidateLabels(labels, p))
}

func (ps *problems) selector(p *field.Path, selector *metav1.LabelSelector) {
	ps.all(metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{}, p))
}

// mode checks the permission bits of a file.
func (ps *problems) mode(p *field.Path, mode *int32) {
	if mode != nil && (*mode < 0 || *mode > 0777) {
		ps.add(field.Invalid(p, *mode, "must be a number between 0 and 0777 (octal), both inclusive"))
	}
}

// oneOf requires value to be among allowed, which are quoted in this order.
func oneOf[T ~string](ps *problems, p *field.Path, value T, allowed ...T) {
	if !slices.Contains(allowed, value) {
		ps.add(field.NotSupported(p, value, allowed))
	}
}

// someOf is oneOf for a field that must be there.
func someOf[T ~string](ps *problems, p *field.Path, value T, allowed ...T) {
	if ps.required(p, string(value)) {
		oneOf(ps, p, value, allowed...)
	}
}

// sortedKeys makes the order of messages about a map predictable.
func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// deref returns what p points to, or the zero value.
func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
