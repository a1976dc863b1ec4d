package usage

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Add adds the amounts in more to list.
func Add(list, more corev1.ResourceList) {
	for name, q := range more {
		if have, ok := list[name]; ok {
			have.Add(q)
			list[name] = have
		} else {
			list[name] = q.DeepCopy()
		}
	}
}

// Raise raises the amounts in list to at least those in other.
func Raise(list, other corev1.ResourceList) {
	for name, q := range other {
		if have, ok := list[name]; !ok || q.Cmp(have) > 0 {
			list[name] = q.DeepCopy()
		}
	}
}

// Beyond returns the amounts by which a exceeds b, for the names where it does.
func Beyond(a, b corev1.ResourceList) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, q := range a {
		if less, ok := b[name]; ok {
			q = q.DeepCopy()
			q.Sub(less)
		}
		if q.Sign() > 0 {
			list[name] = q
		}
	}
	return list
}

// Mask returns the part of list whose names are in names.
func Mask(list, names corev1.ResourceList) corev1.ResourceList {
	part := corev1.ResourceList{}
	for name, q := range list {
		if _, ok := names[name]; ok {
			part[name] = q
		}
	}
	return part
}

// Equal reports whether a and b have the same names with the same amounts.
func Equal(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })
}

// Text returns list in the form of messages, such as "cpu=1,pods=2".
func Text(list corev1.ResourceList) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		parts = append(parts, string(name)+"="+q.String())
	}
	return strings.Join(parts, ",")
}
