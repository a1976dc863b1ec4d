package podspec

import (
	"fmt"
	"strings"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The two strengths of an affinity.
const (
	hardTerms = "requiredDuringSchedulingIgnoredDuringExecution"
	softTerms = "preferredDuringSchedulingIgnoredDuringExecution"
)

// checkAffinity checks which nodes and which company a pod wants.
func checkAffinity(ps *check.Problems, p *field.Path, a *corev1.Affinity) {
	if a == nil {
		return
	}
	if n := a.NodeAffinity; n != nil {
		checkNodeAffinity(ps, p.Child("nodeAffinity"), n)
	}
	if n := a.PodAffinity; n != nil {
		checkPodTerms(ps, p.Child("podAffinity"), n.RequiredDuringSchedulingIgnoredDuringExecution, n.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if n := a.PodAntiAffinity; n != nil {
		checkPodTerms(ps, p.Child("podAntiAffinity"), n.RequiredDuringSchedulingIgnoredDuringExecution, n.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

func checkNodeAffinity(ps *check.Problems, p *field.Path, n *corev1.NodeAffinity) {
	if hard := n.RequiredDuringSchedulingIgnoredDuringExecution; hard != nil {
		CheckNodeSelector(ps, p.Child(hardTerms), hard)
	}
	for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
		soft, at := &n.PreferredDuringSchedulingIgnoredDuringExecution[i], p.Child(softTerms).Index(i)
		checkWeight(ps, at, soft.Weight)
		checkNodeTerm(ps, at.Child("preference"), &soft.Preference, false)
	}
}

// CheckNodeSelector checks a selector of nodes.
func CheckNodeSelector(ps *check.Problems, p *field.Path, s *corev1.NodeSelector) {
	at := p.Child("nodeSelectorTerms")
	ps.Present(len(s.NodeSelectorTerms) > 0, at, "must have at least one node selector term")
	for i := range s.NodeSelectorTerms {
		checkNodeTerm(ps, at.Index(i), &s.NodeSelectorTerms[i], true)
	}
}

func checkWeight(ps *check.Problems, p *field.Path, weight int32) {
	ps.Valid(weight >= 1 && weight <= 100, p.Child("weight"), weight, "must be in the range 1-100")
}

// checkNodeTerm checks a node selector. Where strict, values must be possible
// label values; a preference for an impossible one is merely never met.
func checkNodeTerm(ps *check.Problems, p *field.Path, t *corev1.NodeSelectorTerm, strict bool) {
	for i, r := range t.MatchExpressions {
		at := p.Child("matchExpressions").Index(i)
		values := at.Child("values")
		switch r.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			ps.Present(len(r.Values) > 0, values, "must be specified when `operator` is 'In' or 'NotIn'")
		case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
			ps.Allowed(len(r.Values) == 0, values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
		case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
			ps.Present(len(r.Values) == 1, values, "must be specified single value when `operator` is 'Lt' or 'Gt'")
		default:
			ps.Add(field.Invalid(at.Child("operator"), r.Operator, "not a valid selector operator"))
		}
		ps.All(metavalidation.ValidateLabelName(r.Key, at.Child("key")))
		for j, value := range r.Values {
			if strict {
				ps.Each(values.Index(j), value, validation.IsValidLabelValue(value))
			}
		}
	}
	for i, r := range t.MatchFields {
		at := p.Child("matchFields").Index(i)
		if r.Operator != corev1.NodeSelectorOpIn && r.Operator != corev1.NodeSelectorOpNotIn {
			ps.Add(field.Invalid(at.Child("operator"), r.Operator, "not a valid selector operator"))
		} else if len(r.Values) != 1 {
			ps.Add(field.Required(at.Child("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
		}
		if r.Key != metav1.ObjectNameField {
			ps.Add(field.Invalid(at.Child("key"), r.Key, "not a valid field selector key"))
			continue
		}
		for j, value := range r.Values {
			ps.Subdomain(at.Child("values").Index(j), value)
		}
	}
}

func checkPodTerms(ps *check.Problems, p *field.Path, hard []corev1.PodAffinityTerm, soft []corev1.WeightedPodAffinityTerm) {
	for i := range hard {
		checkPodTerm(ps, p.Child(hardTerms).Index(i), &hard[i])
	}
	for i := range soft {
		at := p.Child(softTerms).Index(i)
		checkWeight(ps, at, soft[i].Weight)
		checkPodTerm(ps, at.Child("podAffinityTerm"), &soft[i].PodAffinityTerm)
	}
}

func checkPodTerm(ps *check.Problems, p *field.Path, t *corev1.PodAffinityTerm) {
	ps.Selector(p.Child("labelSelector"), t.LabelSelector)
	ps.Selector(p.Child("namespaceSelector"), t.NamespaceSelector)
	for _, namespace := range t.Namespaces {
		ps.DNSLabel(p.Child("namespace"), namespace)
	}
	checkLabelKeys(ps, p, t.MatchLabelKeys, t.MismatchLabelKeys, t.LabelSelector)
	ps.Present(t.TopologyKey != "", p.Child("topologyKey"), "can not be empty")
	ps.All(metavalidation.ValidateLabelName(t.TopologyKey, p.Child("topologyKey")))
}

// checkSpread checks how evenly pods are to be laid out.
func checkSpread(ps *check.Problems, p *field.Path, constraints []corev1.TopologySpreadConstraint) {
	type key struct {
		topologyKey string
		when        corev1.UnsatisfiableConstraintAction
	}
	keyOf := func(c *corev1.TopologySpreadConstraint) key { return key{c.TopologyKey, c.WhenUnsatisfiable} }
	last := map[key]int{}
	for i := range constraints {
		last[keyOf(&constraints[i])] = i
	}
	for i, c := range constraints {
		at := p.Index(i)
		ps.Valid(c.MaxSkew > 0, at.Child("maxSkew"), int64(c.MaxSkew), "must be greater than zero")
		ps.Present(c.TopologyKey != "", at.Child("topologyKey"), "can not be empty")
		check.OneOf(ps, at.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, corev1.DoNotSchedule, corev1.ScheduleAnyway)
		ps.Unique(last[keyOf(&c)] == i, at.Child("{topologyKey, whenUnsatisfiable}"),
			fmt.Sprintf("{%v, %v}", c.TopologyKey, c.WhenUnsatisfiable))
		if d := c.MinDomains; d != nil {
			ps.Valid(*d > 0, at.Child("minDomains"), int64(*d), "must be greater than zero")
			ps.Valid(c.WhenUnsatisfiable == corev1.DoNotSchedule, at.Child("minDomains"), d,
				fmt.Sprintf("can only use minDomains if whenUnsatisfiable=%s, not %s", corev1.DoNotSchedule, c.WhenUnsatisfiable))
		}
		for _, policy := range []struct {
			path  string
			value *corev1.NodeInclusionPolicy
		}{
			{"nodeAffinityPolicy", c.NodeAffinityPolicy},
			{"nodeTaintsPolicy", c.NodeTaintsPolicy},
		} {
			if policy.value != nil {
				check.OneOf(ps, at.Child(policy.path), *policy.value, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
			}
		}
		checkLabelKeys(ps, at, c.MatchLabelKeys, nil, c.LabelSelector)
		ps.Selector(at.Child("labelSelector"), c.LabelSelector)
	}
}

// CheckTolerations checks tolerations.
func CheckTolerations(ps *check.Problems, p *field.Path, tolerations []corev1.Toleration) {
	for i, t := range tolerations {
		at := p.Index(i)
		operator := at.Child("operator")
		if t.Key != "" {
			ps.All(metavalidation.ValidateLabelName(t.Key, at.Child("key")))
		} else {
			ps.Valid(t.Operator == corev1.TolerationOpExists, operator, t.Operator,
				"operator must be Exists when `key` is empty, which means \"match all values and all keys\"")
		}
		ps.Valid(t.TolerationSeconds == nil || t.Effect == corev1.TaintEffectNoExecute,
			at.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
		switch t.Operator {
		case corev1.TolerationOpEqual, "":
			if msgs := validation.IsValidLabelValue(t.Value); len(msgs) > 0 {
				ps.Add(field.Invalid(operator, t.Value, strings.Join(msgs, ";")))
			}
		case corev1.TolerationOpExists:
			ps.Valid(t.Value == "", operator, t.Value, "value must be empty when `operator` is 'Exists'")
		default:
			check.OneOf(ps, operator, t.Operator, corev1.TolerationOpEqual, corev1.TolerationOpExists)
		}
		if t.Effect != "" {
			check.OneOf(ps, at.Child("effect"), t.Effect, TaintEffects...)
		}
	}
}

var TaintEffects = []corev1.TaintEffect{
	corev1.TaintEffectNoSchedule,
	corev1.TaintEffectPreferNoSchedule,
	corev1.TaintEffectNoExecute,
}
