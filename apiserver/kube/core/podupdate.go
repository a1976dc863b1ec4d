package core

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validatePodUpdate lets a pod change only where a kubelet can follow: images,
// a nearer deadline, more tolerations, fewer scheduling gates.
func validatePodUpdate(pod, old *corev1.Pod) field.ErrorList {
	var ps check.Problems
	checkPod(&ps, pod)
	annotations := field.NewPath("metadata", "annotations")
	podspec.CheckSameAnnotations(&ps, annotations, pod.Annotations, old.Annotations)
	podspec.CheckAnnotations(&ps, annotations, pod.Annotations, &pod.Spec) // as checkPod does: Kubernetes lists errors twice
	p := field.NewPath("spec")
	for _, kind := range []struct {
		path          string
		now, previous []corev1.Container
	}{
		{"containers", pod.Spec.Containers, old.Spec.Containers},
		{"initContainers", pod.Spec.InitContainers, old.Spec.InitContainers},
	} {
		if len(kind.now) != len(kind.previous) {
			ps.Add(field.Forbidden(p.Child(kind.path), "pod updates may not add or remove containers"))
			return ps.List
		}
	}
	checkDeadline(&ps, p.Child("activeDeadlineSeconds"), pod.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds)
	checkAddedTolerations(&ps, p.Child("tolerations"), pod.Spec.Tolerations, old.Spec.Tolerations)
	for i, g := range pod.Spec.SchedulingGates {
		ps.Allowed(slices.Contains(old.Spec.SchedulingGates, g), p.Child("schedulingGates").Index(i).Child("name"),
			fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", g.Name))
	}
	rest := withAllowedOf(&pod.Spec, &old.Spec)
	if len(old.Spec.SchedulingGates) > 0 {
		narrow(&ps, p, rest, &old.Spec)
	}
	if define.Differ(rest, &old.Spec) {
		ps.Add(field.Forbidden(p, fmt.Sprintf("pod updates may not change fields other than %s\nchanged: %s",
			mutablePodFields, strings.Join(changedFields(*rest, old.Spec), ", "))))
	}
	return ps.List
}

const mutablePodFields = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`," +
	"`spec.tolerations` (only additions to existing tolerations)," +
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

// withAllowedOf returns spec with all fields that may change as they are in old.
// Both have as many containers.
func withAllowedOf(spec, old *corev1.PodSpec) *corev1.PodSpec {
	rest := spec.DeepCopy()
	for i := range rest.Containers {
		rest.Containers[i].Image = old.Containers[i].Image
	}
	for i := range rest.InitContainers {
		rest.InitContainers[i].Image = old.InitContainers[i].Image
	}
	rest.ActiveDeadlineSeconds = old.ActiveDeadlineSeconds
	rest.SchedulingGates = old.SchedulingGates
	rest.Tolerations = old.Tolerations
	if optional.Deref(old.TerminationGracePeriodSeconds) < 0 && optional.Deref(rest.TerminationGracePeriodSeconds) == 1 {
		rest.TerminationGracePeriodSeconds = old.TerminationGracePeriodSeconds
	}
	return rest
}

// changedFields names the fields of a struct that differ, as they are written in
// JSON.
func changedFields(now, old any) []string {
	a, b := reflect.ValueOf(now), reflect.ValueOf(old)
	var names []string
	for i := range a.NumField() {
		if define.Differ(a.Field(i).Interface(), b.Field(i).Interface()) {
			name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}

func checkDeadline(ps *check.Problems, p *field.Path, now, old *int64) {
	switch {
	case now == nil && old != nil:
		ps.Add(field.Invalid(p, now, "must not update from a positive integer to nil value"))
	case now == nil:
	case *now < 0 || *now > math.MaxInt32:
		ps.Add(field.Invalid(p, *now, validation.InclusiveRangeError(0, math.MaxInt32)))
	case old != nil && *now > *old:
		ps.Add(field.Invalid(p, *now, "must be less than or equal to previous value"))
	}
}

// checkAddedTolerations requires each old toleration to remain, except for its time.
func checkAddedTolerations(ps *check.Problems, p *field.Path, now, old []corev1.Toleration) {
	kept := map[corev1.Toleration]bool{}
	for _, t := range now {
		t.TolerationSeconds = nil
		kept[t] = true
	}
	for _, before := range old {
		before.TolerationSeconds = nil
		if !kept[before] {
			ps.Add(field.Forbidden(p, "existing toleration can not be modified except its tolerationSeconds"))
			return
		}
	}
}

// validatePodStatus checks what a kubelet or scheduler reports.
func validatePodStatus(pod, old *corev1.Pod) field.ErrorList {
	var ps check.Problems
	p := field.NewPath("status")
	for i, c := range pod.Status.Conditions {
		at := p.Child("conditions").Index(i)
		checkObserved(&ps, at, c.ObservedGeneration)
		ps.Each(at.Child("Type"), string(c.Type), validation.IsQualifiedName(string(c.Type)))
	}
	if name := pod.Status.NominatedNodeName; name != "" && name != old.Status.NominatedNodeName {
		at := p.Child("nominatedNodeName")
		ps.Subdomain(at, name)
		ps.Allowed(old.Spec.NodeName == "", at, "may not be set on pods that are already bound to a node")
	}
	checkObserved(&ps, p, pod.Status.ObservedGeneration)
	ps.Immutable(p.Child("qosClass"), pod.Status.QOSClass, old.Status.QOSClass)
	checkRevived(&ps, p.Child("containerStatuses"), pod, old)
	checkPodIPs(&ps, p.Child("podIPs"), pod.Status.PodIPs, old.Status.PodIPs)
	if ips := pod.Status.HostIPs; len(ips) > 0 {
		ps.Valid(ips[0].IP == pod.Status.HostIP,
			p.Child("hostIPs").Index(0).Child("ip"), ips[0].IP, "must be equal to `hostIP`")
	}
	return ps.List
}

func checkObserved(ps *check.Problems, p *field.Path, generation int64) {
	ps.Valid(generation >= 0, p.Child("observedGeneration"), generation, "must be a non-negative integer")
}

// checkPodIPs allows one address for each IP family. Addresses that were there
// before may be of a form that is no longer written.
func checkPodIPs(ps *check.Problems, p *field.Path, now, old []corev1.PodIP) {
	var before []string
	for _, ip := range old {
		before = append(before, ip.IP)
	}
	families := map[bool]int{}
	for i, ip := range now {
		ps.All(validation.IsValidIPForLegacyField(p.Index(i), ip.IP, true, before))
		families[strings.Contains(ip.IP, ":")]++
	}
	if families[true] > 1 || families[false] > 1 {
		ps.Add(field.Invalid(p, now, "may specify no more than one IP for each IP family"))
	}
}

// checkRevived adds an error if a container that ended for good is reported as running.
func checkRevived(ps *check.Problems, p *field.Path, pod, old *corev1.Pod) {
	if restartsAll(old.Spec.InitContainers) || restartsAll(old.Spec.Containers) {
		return // each may run again
	}
	for i, before := range old.Status.ContainerStatuses {
		end := before.State.Terminated
		if end == nil || mayRestart(&old.Spec, before.Name, end.ExitCode) {
			continue
		}
		for _, c := range pod.Status.ContainerStatuses {
			ps.Allowed(c.Name != before.Name || c.State.Terminated != nil,
				p.Index(i).Child("state"), "may not be transitioned to non-terminated state")
		}
	}
}

// restartsAll reports whether the end of one of the containers can restart all of the pod.
func restartsAll(containers []corev1.Container) bool {
	return slices.ContainsFunc(containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
			return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		})
	})
}

// mayRestart reports whether the container of that name is started again after it
// exited with code: as its own rules say, its own policy, or the pod's.
func mayRestart(spec *corev1.PodSpec, name string, code int32) bool {
	i := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		return false
	}
	c := &spec.Containers[i]
	for _, rule := range c.RestartPolicyRules {
		if e := rule.ExitCodes; e != nil {
			in := slices.Contains(e.Values, code)
			if in == (e.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
				return true
			}
		}
	}
	policy := corev1.ContainerRestartPolicy(spec.RestartPolicy)
	if c.RestartPolicy != nil {
		policy = *c.RestartPolicy
	}
	return policy == corev1.ContainerRestartPolicyAlways || policy == corev1.ContainerRestartPolicyOnFailure && code != 0
}
