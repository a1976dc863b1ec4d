package usage

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

const countPods corev1.ResourceName = "count/pods"

var podNames = []corev1.ResourceName{
	countPods, corev1.ResourcePods,
	corev1.ResourceCPU, corev1.ResourceRequestsCPU, corev1.ResourceLimitsCPU,
	corev1.ResourceMemory, corev1.ResourceRequestsMemory, corev1.ResourceLimitsMemory,
	corev1.ResourceEphemeralStorage, corev1.ResourceRequestsEphemeralStorage, corev1.ResourceLimitsEphemeralStorage,
}

// deviceClass begins the names of resources that represent a class of devices.
const deviceClass = "deviceclass.resource.kubernetes.io/"

// podName reports whether pods count as name, apart from podNames.
func podName(name corev1.ResourceName) bool {
	n := string(name)
	if strings.HasPrefix(n, corev1.ResourceHugePagesPrefix) || strings.HasPrefix(n, corev1.ResourceRequestsHugePagesPrefix) {
		return true
	}
	asked, ok := strings.CutPrefix(n, corev1.DefaultResourceRequestsPrefix)
	return ok && (foreign(name) || strings.HasPrefix(asked, deviceClass))
}

// foreign reports whether name has a domain other than Kubernetes' own.
func foreign(name corev1.ResourceName) bool {
	return strings.Contains(string(name), "/") && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// device reports whether a container's resource is counted under "requests.".
func device(name corev1.ResourceName) bool {
	if strings.HasPrefix(string(name), deviceClass) {
		return true
	}
	return foreign(name) && !strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
}

func ofPod(object any, now time.Time) (corev1.ResourceList, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("a %T is not a pod", object)
	}
	list := corev1.ResourceList{countPods: one()}
	if !over(pod, now) {
		named(list, Requests(pod), Limits(pod))
	}
	return list, nil
}

// over reports whether a pod no longer counts: it has ended, or its grace period has passed, as
// when its node is lost.
func over(pod *corev1.Pod, now time.Time) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return false
	}
	grace := time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	return now.After(pod.DeletionTimestamp.Add(grace))
}

// named adds a pod's requests and limits to list under the names of quotas.
func named(list, requests, limits corev1.ResourceList) {
	list[corev1.ResourcePods] = one()
	for name, q := range requests {
		switch {
		case computed(name), strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			list[name] = q
			list[corev1.DefaultResourceRequestsPrefix+name] = q
		case device(name):
			list[corev1.DefaultResourceRequestsPrefix+name] = q
		}
	}
	for name, q := range limits {
		if computed(name) {
			list["limits."+name] = q
		}
	}
}

func computed(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage
}

func podIn(scope corev1.ScopedResourceSelectorRequirement, object any) (bool, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return false, fmt.Errorf("a %T is not a pod", object)
	}
	switch scope.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return Terminating(pod), nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return !Terminating(pod), nil
	case corev1.ResourceQuotaScopeBestEffort:
		return bestEffort(pod), nil
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !bestEffort(pod), nil
	case corev1.ResourceQuotaScopePriorityClass:
		return selects(scope, pod.Spec.PriorityClassName)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return reachesOut(pod.Spec.Affinity), nil
	}
	return false, nil
}

// Terminating reports whether a pod has a limited run time.
func Terminating(pod *corev1.Pod) bool {
	return pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
}

// bestEffort reports whether no container of a pod has requests or limits.
func bestEffort(pod *corev1.Pod) bool {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass == corev1.PodQOSBestEffort
	}
	if pod.Spec.Resources != nil {
		return !promised(*pod.Spec.Resources)
	}
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			if promised(containers[i].Resources) {
				return false
			}
		}
	}
	return true
}

func promised(r corev1.ResourceRequirements) bool {
	for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
		if list.Cpu().Sign() > 0 || list.Memory().Sign() > 0 {
			return true
		}
	}
	return false
}

// wholeSaid reports whether a pod has requests or limits for the pod as a whole.
func wholeSaid(pod *corev1.Pod) bool {
	if pod.Spec.Resources == nil {
		return false
	}
	for _, list := range []corev1.ResourceList{pod.Spec.Resources.Requests, pod.Spec.Resources.Limits} {
		for name := range list {
			if wholePod(name) {
				return true
			}
		}
	}
	return false
}

// reachesOut reports whether an affinity refers to pods of other namespaces.
func reachesOut(a *corev1.Affinity) bool {
	if a == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	var weighted []corev1.WeightedPodAffinityTerm
	if p := a.PodAffinity; p != nil {
		terms = append(terms, p.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted = append(weighted, p.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	if p := a.PodAntiAffinity; p != nil {
		terms = append(terms, p.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted = append(weighted, p.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	for i := range weighted {
		terms = append(terms, weighted[i].PodAffinityTerm)
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool {
		return len(t.Namespaces) > 0 || t.NamespaceSelector != nil
	})
}

// demanded are the names that every container must have an amount for, if a quota limits them.
// Kubernetes keeps them for compatibility and adds no others.
var demanded = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
	corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
}

// Unspecified returns an error that lists the amounts that the containers of object, including init
// containers, must specify for a quota with hard. It is nil for objects other than pods, and for
// pods that have amounts for the pod as a whole.
func Unspecified(hard corev1.ResourceList, object any) error {
	pod, ok := object.(*corev1.Pod)
	if !ok || wholeSaid(pod) {
		return nil
	}
	missing := map[corev1.ResourceName][]string{}
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			c := &containers[i]
			given := corev1.ResourceList{}
			named(given, c.Resources.Requests, c.Resources.Limits)
			for _, name := range demanded {
				_, wanted := hard[name]
				if _, ok := given[name]; wanted && !ok {
					missing[name] = append(missing[name], c.Name)
				}
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		who := slices.Compact(slices.Sorted(slices.Values(missing[name])))
		parts = append(parts, fmt.Sprintf("%s for: %s", name, strings.Join(who, ",")))
	}
	return fmt.Errorf("must specify %s", strings.Join(parts, "; "))
}
