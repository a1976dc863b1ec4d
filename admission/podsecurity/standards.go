package podsecurity

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Violation says what a check finds wrong with a pod, in Kubernetes' words.
type Violation struct {
	// Reason is short and alike for all pods, such as `host namespaces`.
	Reason string
	// Detail names what is wrong in this pod, such as `hostNetwork=true`.
	Detail string
}

// Violations holds what all checks of a standard find, in the order of the checks. None means that the pod is allowed.
type Violations []Violation

// Reasons returns the reasons alone.
func (v Violations) Reasons() string {
	var b strings.Builder
	for i, one := range v {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(one.Reason)
	}
	return b.String()
}

// String returns the reasons, each followed by its detail in parentheses.
func (v Violations) String() string {
	var b strings.Builder
	for i, one := range v {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(one.Reason)
		if one.Detail != "" {
			b.WriteString(" (" + one.Detail + ")")
		}
	}
	return b.String()
}

// Standards evaluates pods. It is immutable, so that goroutines may share it.
type Standards struct {
	// Both hold the checks of a level by minor version, up to the last version that changed one.
	baseline, restricted [][]examine
}

// examine returns what is wrong with a pod; nil if nothing is. It must not change its arguments.
type examine func(*metav1.ObjectMeta, *corev1.PodSpec) *Violation

// check is a row of the table of checks.
type check struct {
	id    string
	level Level
	// revisions are in ascending order of their versions.
	revisions []revision
	// replaces is the check of the level below that is left out where this one applies.
	replaces string
}

// revision is a check as it is since a minor version.
type revision struct {
	since   int
	examine examine
}

// at returns the revision for a minor version; nil before the first.
func (c *check) at(minor int) examine {
	var found examine
	for _, r := range c.revisions {
		if r.since <= minor {
			found = r.examine
		}
	}
	return found
}

// NewStandards returns the standards of Kubernetes v1.36, with those of all versions before.
func NewStandards() *Standards {
	table := checks()
	slices.SortFunc(table, func(a, b check) int {
		return cmp.Or(cmp.Compare(a.level, b.level), strings.Compare(a.id, b.id))
	})
	last := 0
	for _, c := range table {
		last = max(last, c.revisions[len(c.revisions)-1].since)
	}
	s := &Standards{}
	for minor := range last + 1 {
		replaced := map[string]bool{}
		for _, c := range table {
			if c.replaces != "" && c.at(minor) != nil {
				replaced[c.replaces] = true
			}
		}
		var baseline, restricted []examine
		for _, c := range table {
			run := c.at(minor)
			if run == nil {
				continue
			}
			if c.level == Baseline {
				baseline = append(baseline, run)
			}
			if !replaced[c.id] {
				restricted = append(restricted, run)
			}
		}
		s.baseline, s.restricted = append(s.baseline, baseline), append(s.restricted, restricted)
	}
	return s
}

// Evaluate returns the violations of a standard by a pod or the template of one. Versions after the last known one
// equal that. The arguments are not changed.
func (s *Standards) Evaluate(standard Standard, meta *metav1.ObjectMeta, spec *corev1.PodSpec) Violations {
	list := s.restricted
	switch standard.Level {
	case Privileged:
		return nil
	case Baseline:
		list = s.baseline
	}
	minor := len(list) - 1
	if standard.Version.Pinned {
		minor = min(minor, standard.Version.Minor)
	}
	var found Violations
	for _, run := range list[minor] {
		if v := run(meta, spec); v != nil {
			found = append(found, *v)
		}
	}
	return found
}
