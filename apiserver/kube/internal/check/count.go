package check

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// IntOrPercent checks a number of pods or a percentage.
func IntOrPercent(ps *Problems, p *field.Path, v *intstr.IntOrString) {
	switch {
	case v == nil:
	case v.Type == intstr.String:
		ps.Each(p, *v, validation.IsValidPercent(v.StrVal))
	default:
		ps.NotNegative(p, int64(v.IntValue()))
	}
}

// IntOrPercentValue returns the number of pods or of percent, and zero for a text that is neither.
func IntOrPercentValue(v *intstr.IntOrString) int {
	if v == nil {
		return 0
	}
	if v.Type == intstr.Int {
		return v.IntValue()
	}
	n, _ := strconv.Atoi(strings.TrimSuffix(v.StrVal, "%")) // IntOrPercent reports the error
	return n
}

// Count is a number of pods in some state.
type Count struct {
	Path  string
	Value int32
}

// Counts checks that no count exceeds replicas.
func Counts(ps *Problems, p *field.Path, replicas, ready, available int32, other Count) {
	ps.NotNegative(p.Child("replicas"), int64(replicas))
	for _, c := range []Count{other, {"readyReplicas", ready}, {"availableReplicas", available}} {
		ps.NotNegative(p.Child(c.Path), int64(c.Value))
		ps.Valid(c.Value <= replicas, p.Child(c.Path), c.Value, "cannot be greater than status.replicas")
	}
	ps.Valid(available <= ready, p.Child("availableReplicas"), available, "cannot be greater than readyReplicas")
}

// AtMostAll adds an error for more than 100%.
func AtMostAll(ps *Problems, p *field.Path, n *intstr.IntOrString) {
	ps.Valid(n == nil || n.Type != intstr.String || IntOrPercentValue(n) <= 100, p, n, "must not be greater than 100%")
}
