package job

import (
	"fmt"
	"math"
	"slices"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers/internal/optional"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// judgement is the result of a Job's failure policy for a failed pod. If no rule matches, the
// failure counts.
type judgement struct {
	ignore, failIndex bool
	// failJob says why the whole Job fails; empty if it does not.
	failJob string
}

// judge applies the first rule that matches.
func judge(policy *batchv1.PodFailurePolicy, pod *corev1.Pod) judgement {
	if policy == nil {
		return judgement{}
	}
	for i := range policy.Rules {
		rule := &policy.Rules[i]
		why := matchRule(rule, pod)
		if why == "" {
			continue
		}
		switch rule.Action {
		case batchv1.PodFailurePolicyActionIgnore:
			return judgement{ignore: true}
		case batchv1.PodFailurePolicyActionFailIndex:
			return judgement{failIndex: true}
		case batchv1.PodFailurePolicyActionFailJob:
			return judgement{failJob: fmt.Sprintf("%s matching %s rule at index %d", why, rule.Action, i)}
		case batchv1.PodFailurePolicyActionCount:
			return judgement{}
		}
	}
	return judgement{}
}

// matchRule describes what of the pod matches the rule; empty means that nothing does.
func matchRule(rule *batchv1.PodFailurePolicyRule, pod *corev1.Pod) string {
	if rule.OnExitCodes != nil {
		for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
			for i := range list {
				if end := list[i].State.Terminated; end != nil && matchExit(rule.OnExitCodes, list[i].Name, end.ExitCode) {
					return fmt.Sprintf("Container %s for pod %s failed with exit code %d", list[i].Name, localcache.KeyOf(pod), end.ExitCode)
				}
			}
		}
		return ""
	}
	for _, c := range pod.Status.Conditions {
		if slices.ContainsFunc(rule.OnPodConditions, func(p batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
			return p.Type == c.Type && p.Status == c.Status
		}) {
			return fmt.Sprintf("Pod %s has condition %s", localcache.KeyOf(pod), c.Type)
		}
	}
	return ""
}

// matchExit never matches success, even if a rule excludes other codes only.
func matchExit(r *batchv1.PodFailurePolicyOnExitCodesRequirement, container string, code int32) bool {
	if code == 0 || r.ContainerName != nil && *r.ContainerName != container {
		return false
	}
	switch listed := slices.Contains(r.Values, code); r.Operator {
	case batchv1.PodFailurePolicyOnExitCodesOpIn:
		return listed
	case batchv1.PodFailurePolicyOnExitCodesOpNotIn:
		return !listed
	}
	return false
}

// enough returns the rule of the success policy that the succeeded indexes fulfill; empty if none.
func enough(policy *batchv1.SuccessPolicy, succeeded indexes, completions int) string {
	if policy == nil || len(succeeded) == 0 {
		return ""
	}
	for i, rule := range policy.Rules {
		have, want := succeeded.count(), math.MaxInt32
		if rule.SucceededIndexes != nil {
			of := parseIndexes(*rule.SucceededIndexes, completions)
			if len(of) == 0 {
				continue // none that make sense
			}
			have, want = of.shared(succeeded), of.count()
		}
		if have >= min(want, int(optional.Value(rule.SucceededCount, math.MaxInt32))) {
			return fmt.Sprintf("Matched rules at index %d", i)
		}
	}
	return ""
}
