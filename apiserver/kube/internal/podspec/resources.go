package podspec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// nativeDomain marks resources with a slash that are Kubernetes's own.
const nativeDomain = "kubernetes.io/"

// Resource names without a domain that exist, though not for containers: what
// is counted in whole objects, and the rest.
var (
	ObjectNames = []corev1.ResourceName{
		corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
		corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims,
		corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
	}
	QuotaNames = []corev1.ResourceName{
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
		corev1.ResourceStorage, corev1.ResourceRequestsStorage,
	}
)

// CheckRequirements checks limits and requests; name checks the names.
func CheckRequirements(ps *check.Problems, p *field.Path, r *corev1.ResourceRequirements, name func(*check.Problems, *field.Path, corev1.ResourceName)) {
	limits, requests := p.Child("limits"), p.Child("requests")
	huge, compute := false, false
	note := func(n corev1.ResourceName) {
		huge = huge || IsHugePages(n)
		compute = compute || slices.Contains(qosResources[:], n)
	}
	for _, n := range check.SortedKeys(r.Limits) {
		at := limits.Key(string(n))
		name(ps, at, n)
		CheckAmount(ps, at, n, r.Limits[n])
		checkPages(ps, at, n, r.Limits[n])
		note(n)
	}
	for _, n := range check.SortedKeys(r.Requests) {
		at, request := requests.Key(string(n)), r.Requests[n]
		name(ps, at, n)
		CheckAmount(ps, at, n, request)
		limit, limited := r.Limits[n]
		switch {
		case limited && !CanOvercommit(n) && request.Cmp(limit) != 0:
			ps.Add(field.Invalid(requests, request.String(), fmt.Sprintf("must be equal to %s limit of %s", n, limit.String())))
		case limited && request.Cmp(limit) > 0:
			ps.Add(field.Invalid(requests, request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", n, limit.String())))
		case !limited && !CanOvercommit(n):
			ps.Add(field.Required(limits, "Limit must be set for non overcommitable resources"))
		}
		checkPages(ps, at, n, request)
		note(n)
	}
	ps.Allowed(!huge || compute, p, "HugePages require cpu or memory")
}

// checkResizePolicy checks what happens to a container when it is resized.
func checkResizePolicy(ps *check.Problems, p *field.Path, policies []corev1.ContainerResizePolicy, restart corev1.RestartPolicy) {
	seen := map[corev1.ResourceName]bool{}
	for i, policy := range policies {
		ps.Unique(!seen[policy.ResourceName], p.Index(i), policy.ResourceName)
		seen[policy.ResourceName] = true
		check.RequiredOneOf(ps, p, policy.ResourceName, corev1.ResourceCPU, corev1.ResourceMemory)
		check.RequiredOneOf(ps, p, policy.RestartPolicy, corev1.NotRequired, corev1.RestartContainer)
		if restart == corev1.RestartPolicyNever && policy.RestartPolicy != corev1.NotRequired {
			ps.Add(field.Invalid(p, policy.RestartPolicy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))
		}
	}
}

// CheckAmount checks a quantity. Devices and objects come in whole numbers.
func CheckAmount(ps *check.Problems, p *field.Path, n corev1.ResourceName, q resource.Quantity) {
	if q.Sign() < 0 {
		ps.Add(field.Invalid(p, q.String(), "must be greater than or equal to 0"))
	}
	if (slices.Contains(ObjectNames, n) || extended(n)) && q.MilliValue()%1000 != 0 {
		ps.Add(field.Invalid(p, q, "must be an integer"))
	}
}

func checkPages(ps *check.Problems, p *field.Path, n corev1.ResourceName, q resource.Quantity) {
	size, ok := strings.CutPrefix(string(n), corev1.ResourceHugePagesPrefix)
	if !ok {
		return
	}
	page, err := resource.ParseQuantity(size)
	if err != nil || page.Value() <= 0 || q.Value()%page.Value() != 0 {
		ps.Add(field.Invalid(p, q.String(), fmt.Sprintf("%s is not positive integer multiple of %s", q.String(), n)))
	}
}

// ContainerResource checks the name of something a container can have.
func ContainerResource(ps *check.Problems, p *field.Path, n corev1.ResourceName) {
	msgs := validation.IsQualifiedName(string(n))
	ps.Each(p, n, msgs)
	standard := computeResource(n)
	switch plain := !strings.Contains(string(n), "/"); {
	case plain && !standard:
		if len(msgs) == 0 && !slices.Contains(QuotaNames, n) && !slices.Contains(ObjectNames, n) {
			ps.Add(field.Invalid(p, n, "must be a standard resource type or fully qualified"))
		}
		ps.Add(field.Invalid(p, n, "must be a standard resource for containers"))
	case !plain && !IsNative(n) && !extended(n):
		ps.Add(field.Invalid(p, n, "doesn't follow extended resource name standard"))
	}
}

// computeResource reports whether containers have n on every node.
func computeResource(n corev1.ResourceName) bool {
	return n == corev1.ResourceCPU || n == corev1.ResourceMemory || n == corev1.ResourceEphemeralStorage || IsHugePages(n)
}

// IsHugePages reports whether n is a size of huge pages.
func IsHugePages(n corev1.ResourceName) bool {
	return strings.HasPrefix(string(n), corev1.ResourceHugePagesPrefix)
}

// IsNative reports whether n is a resource that Kubernetes defines.
func IsNative(n corev1.ResourceName) bool {
	return !strings.Contains(string(n), "/") || strings.Contains(string(n), nativeDomain)
}

// extended reports whether n is a resource that is not Kubernetes's own, such as
// a device. Its name must still be one when a quota puts "requests." before it.
func extended(n corev1.ResourceName) bool {
	return !IsNative(n) && !strings.HasPrefix(string(n), corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(n))) == 0
}

// CanOvercommit reports whether a container may be promised less than its limit.
func CanOvercommit(n corev1.ResourceName) bool { return IsNative(n) && !IsHugePages(n) }

// checkPodResources checks what is asked for the pod as a whole: it must cover
// what its containers ask for.
func checkPodResources(ps *check.Problems, p *field.Path, scope *scope) {
	spec := scope.spec
	r := spec.Resources
	if r == nil {
		return
	}
	ps.Allowed(r.Claims == nil, p.Child("claims"), "claims may not be set for Resources at pod-level")
	CheckRequirements(ps, p, r, podResource)
	checkClaims(ps, p.Child("claims"), r.Claims, scope.claims)
	sums := atOnce(spec, requestsOf)
	for _, n := range check.SortedKeys(r.Requests) {
		have, sum := r.Requests[n], sums[n]
		if have.Cmp(sum) < 0 {
			ps.Add(field.Invalid(p.Child("requests").Key(string(n)), have.String(),
				fmt.Sprintf("must be greater than or equal to aggregate container requests of %s", sum.String())))
		}
	}
	for i, c := range spec.Containers {
		for _, n := range check.SortedKeys(c.Resources.Limits) {
			limit := c.Resources.Limits[n]
			if most, ok := r.Limits[n]; ok && limit.Cmp(most) > 0 {
				ps.Add(field.Invalid(p.Child("containers").Index(i).Key(string(n)).Child("limits"), limit.String(),
					fmt.Sprintf("must be less than or equal to pod limits of %s", most.String())))
			}
		}
	}
}

func podResource(ps *check.Problems, p *field.Path, n corev1.ResourceName) {
	if msgs := validation.IsQualifiedName(string(n)); len(msgs) > 0 {
		ps.Each(p, n, msgs)
	} else if !strings.Contains(string(n), "/") && !computeResource(n) && !slices.Contains(QuotaNames, n) && !slices.Contains(ObjectNames, n) {
		ps.Add(field.Invalid(p, n, "must be a standard resource type or fully qualified"))
	} else if n != corev1.ResourceCPU && n != corev1.ResourceMemory && !IsHugePages(n) {
		ps.Add(field.NotSupported(p, n, []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}))
	}
}

// SetAmount adds q to list unless there is an amount already.
func SetAmount(list *corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) {
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	if _, ok := (*list)[name]; !ok {
		(*list)[name] = q.DeepCopy()
	}
}

// RoundUp rounds quantities up to thousandths, the finest there are.
func RoundUp(list corev1.ResourceList) {
	for name, q := range list {
		q.RoundUp(resource.Milli)
		list[name] = q
	}
}
