package batch

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of a job's policies
// (https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/).
const (
	maxPolicyRules    = 20
	maxPolicyPatterns = 20
	maxExitCodes      = 255
	maxIndexesBytes   = 64 << 10
)

var failureActions = []batchv1.PodFailurePolicyAction{
	batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
	batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore,
}

func checkFailurePolicy(ps *check.Problems, p *field.Path, spec *batchv1.JobSpec) {
	rules := spec.PodFailurePolicy.Rules
	p = p.Child("rules")
	ps.AtMost(p, len(rules), maxPolicyRules)
	for i := range rules {
		checkFailureRule(ps, p.Index(i), &rules[i], spec)
	}
}

func checkFailureRule(ps *check.Problems, p *field.Path, rule *batchv1.PodFailurePolicyRule, spec *batchv1.JobSpec) {
	if policyValue(ps, p.Child("action"), rule.Action, failureActions) {
		ps.Valid(rule.Action != batchv1.PodFailurePolicyActionFailIndex || spec.BackoffLimitPerIndex != nil,
			p.Child("action"), rule.Action, "requires the backoffLimitPerIndex to be set")
	}
	codes, conditions := rule.OnExitCodes, rule.OnPodConditions
	if codes != nil {
		checkExitCodes(ps, p.Child("onExitCodes"), codes, &spec.Template.Spec)
	}
	at := p.Child("onPodConditions")
	ps.AtMost(at, len(conditions), maxPolicyPatterns)
	for i, c := range conditions {
		ps.Each(at.Index(i).Child("type"), string(c.Type), validation.IsQualifiedName(string(c.Type)))
		policyValue(ps, at.Index(i).Child("status"), c.Status,
			[]corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown})
	}
	switch {
	case codes != nil && len(conditions) > 0:
		ps.Add(field.Invalid(p, field.OmitValueType{}, "specifying both OnExitCodes and OnPodConditions is not supported"))
	case codes == nil && len(conditions) == 0:
		ps.Add(field.Invalid(p, field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required"))
	}
}

// policyValue requires one of the allowed values and reports whether there is
// one.
func policyValue[T ~string](ps *check.Problems, p *field.Path, value T, allowed []T) bool {
	if value == "" {
		ps.Add(field.Required(p, fmt.Sprintf("valid values: %q", allowed)))
		return false
	}
	check.OneOf(ps, p, value, allowed...)
	return slices.Contains(allowed, value)
}

func checkExitCodes(ps *check.Problems, p *field.Path, codes *batchv1.PodFailurePolicyOnExitCodesRequirement, pod *corev1.PodSpec) {
	policyValue(ps, p.Child("operator"), codes.Operator,
		[]batchv1.PodFailurePolicyOnExitCodesOperator{batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn})
	if name := codes.ContainerName; name != nil {
		known := func(c corev1.Container) bool { return c.Name == *name }
		ps.Valid(slices.ContainsFunc(pod.Containers, known) || slices.ContainsFunc(pod.InitContainers, known),
			p.Child("containerName"), *name, "must be one of the container or initContainer names in the pod template")
	}
	at := p.Child("values")
	ps.Valid(len(codes.Values) > 0, at, codes.Values, "at least one value is required")
	ps.AtMost(at, len(codes.Values), maxExitCodes)
	seen := check.Seen[int32]{}
	for i, code := range codes.Values {
		ps.Valid(code != 0 || codes.Operator != batchv1.PodFailurePolicyOnExitCodesOpIn,
			at.Index(i), code, "must not be 0 for the In operator")
		ps.Unique(!seen.Again(code), at.Index(i), code)
	}
	ps.Valid(slices.IsSorted(codes.Values), at, codes.Values, "must be ordered")
}

func checkSuccessPolicy(ps *check.Problems, p *field.Path, spec *batchv1.JobSpec) {
	if !indexed(spec) {
		ps.Add(field.Invalid(p, *spec.SuccessPolicy, "requires indexed completion mode"))
		return
	}
	rules := spec.SuccessPolicy.Rules
	p = p.Child("rules")
	ps.Present(len(rules) > 0, p, "at least one rules must be specified when the successPolicy is specified")
	ps.AtMost(p, len(rules), maxPolicyRules)
	completions := optional.Deref(spec.Completions)
	for i, rule := range rules {
		at := p.Index(i)
		ps.Present(rule.SucceededCount != nil || rule.SucceededIndexes != nil,
			at, "at least one of succeededCount or succeededIndexes must be specified")
		total := completions
		if indexes := rule.SucceededIndexes; indexes != nil {
			named := at.Child("succeededIndexes")
			ps.AtMostBytes(named, len(*indexes), maxIndexesBytes)
			n, err := countIndexes(*indexes, completions)
			if err != nil {
				ps.Add(field.Invalid(named, *indexes, "error parsing succeededIndexes: "+err.Error()))
			}
			total = n
		}
		if n := rule.SucceededCount; n != nil {
			named := at.Child("succeededCount")
			ps.NotNegative(named, int64(*n))
			ps.Valid(*n <= completions, named, *n,
				fmt.Sprintf("must be less than or equal to %d (the number of specified completions)", completions))
			ps.Valid(rule.SucceededIndexes == nil || *n <= total, named, *n,
				fmt.Sprintf("must be less than or equal to %d (the number of indexes in the specified succeededIndexes field)", total))
		}
	}
}

// countIndexes counts the indexes in a list such as "1,3-5,7", which must ascend
// and stay below completions.
func countIndexes(list string, completions int32) (int32, error) {
	if list == "" {
		return 0, nil
	}
	total, last := int64(0), int64(-1)
	for part := range strings.SplitSeq(list, ",") {
		from, to, interval := strings.Cut(part, "-")
		first, err := parseIndex(from, completions)
		if err != nil {
			return 0, err
		}
		end := first
		if interval {
			if end, err = parseIndex(to, completions); err != nil {
				return 0, err
			}
			if end <= first {
				return 0, fmt.Errorf("non-increasing order, previous: %d, current: %d", first, end)
			}
		}
		if first <= last {
			return 0, fmt.Errorf("non-increasing order, previous: %d, current: %d", last, first)
		}
		total += end - first + 1
		last = end
	}
	return int32(total), nil
}

func parseIndex(s string, completions int32) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	switch {
	case err != nil:
		return 0, fmt.Errorf("cannot convert string to integer for index: %q", s)
	case n < 0:
		return 0, errors.New("negative index")
	case n >= int64(completions):
		return 0, fmt.Errorf("too large index: %q", s)
	}
	return n, nil
}
