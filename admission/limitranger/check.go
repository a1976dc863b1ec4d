package limitranger

import (
	"fmt"
	"maps"
	"slices"

	"github.com/planekit/planekit/internal/usage"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// checkPod returns an error that lists all violations of l by pod.
func checkPod(pod *corev1.Pod, l *corev1.LimitRange) error {
	var errs []error
	for i := range l.Spec.Limits {
		item := &l.Spec.Limits[i]
		switch item.Type {
		case corev1.LimitTypeContainer:
			for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
				for j := range containers {
					errs = append(errs, check(item, containers[j].Resources.Requests, containers[j].Resources.Limits)...)
				}
			}
		case corev1.LimitTypePod:
			requests := usage.Containers(pod, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests })
			limits := usage.Containers(pod, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits })
			if whole := pod.Spec.Resources; whole != nil {
				override(requests, whole.Requests)
				override(limits, whole.Limits)
			}
			errs = append(errs, check(item, requests, limits)...)
		}
	}
	return utilerrors.NewAggregate(errs)
}

// override replaces the sums by the resources of the pod as a whole.
func override(list, whole corev1.ResourceList) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, ok := whole[name]; ok {
			list[name] = q
		}
	}
}

// checkClaim returns an error that lists all violations of l by c. Only requests count.
func checkClaim(c *corev1.PersistentVolumeClaim, l *corev1.LimitRange) error {
	var errs []error
	for i := range l.Spec.Limits {
		item := &l.Spec.Limits[i]
		if item.Type != corev1.LimitTypePersistentVolumeClaim {
			continue
		}
		for name, bound := range sorted(item.Min) {
			errs = append(errs, atLeast(item.Type, name, bound, c.Spec.Resources.Requests, nil))
		}
		for name, bound := range sorted(item.Max) {
			request, ok := c.Spec.Resources.Requests[name]
			if !ok {
				errs = append(errs, fmt.Errorf("maximum %s usage per %s is %s.  No request is specified", name, item.Type, &bound))
			} else if request.Cmp(bound) > 0 {
				errs = append(errs, fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, item.Type, &bound, &request))
			}
		}
	}
	return utilerrors.NewAggregate(errs)
}

func check(item *corev1.LimitRangeItem, requests, limits corev1.ResourceList) (errs []error) {
	for name, bound := range sorted(item.Min) {
		errs = append(errs, atLeast(item.Type, name, bound, requests, limits))
	}
	for name, bound := range sorted(item.Max) {
		errs = append(errs, atMost(item.Type, name, bound, requests, limits))
	}
	for name, bound := range sorted(item.MaxLimitRequestRatio) {
		errs = append(errs, ratio(item.Type, name, bound, requests, limits))
	}
	return errs
}

func atLeast(per corev1.LimitType, name corev1.ResourceName, bound resource.Quantity, requests, limits corev1.ResourceList) error {
	request, requested := requests[name]
	limit, limited := limits[name]
	switch {
	case !requested:
		return fmt.Errorf("minimum %s usage per %s is %s.  No request is specified", name, per, &bound)
	case request.Cmp(bound) < 0:
		return fmt.Errorf("minimum %s usage per %s is %s, but request is %s", name, per, &bound, &request)
	case limited && limit.Cmp(bound) < 0:
		return fmt.Errorf("minimum %s usage per %s is %s, but limit is %s", name, per, &bound, &limit)
	}
	return nil
}

func atMost(per corev1.LimitType, name corev1.ResourceName, bound resource.Quantity, requests, limits corev1.ResourceList) error {
	request, requested := requests[name]
	limit, limited := limits[name]
	switch {
	case !limited:
		return fmt.Errorf("maximum %s usage per %s is %s.  No limit is specified", name, per, &bound)
	case limit.Cmp(bound) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but limit is %s", name, per, &bound, &limit)
	case requested && request.Cmp(bound) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, per, &bound, &request)
	}
	return nil
}

func ratio(per corev1.LimitType, name corev1.ResourceName, bound resource.Quantity, requests, limits corev1.ResourceList) error {
	request, limit := requests[name], limits[name]
	const text = "%s max limit to request ratio per %s is %s, but "
	switch {
	case request.IsZero():
		return fmt.Errorf(text+"no request is specified or request is 0", name, per, &bound)
	case limit.IsZero():
		return fmt.Errorf(text+"no limit is specified or limit is 0", name, per, &bound)
	}
	// Like Kubernetes, use floating-point thousandths.
	if have := limit.AsApproximateFloat64() / request.AsApproximateFloat64(); have*1000 > float64(bound.MilliValue()) {
		return fmt.Errorf(text+"provided ratio is %f", name, per, &bound, have)
	}
	return nil
}

// sorted iterates over list in the order of its names.
func sorted(list corev1.ResourceList) func(yield func(corev1.ResourceName, resource.Quantity) bool) {
	return func(yield func(corev1.ResourceName, resource.Quantity) bool) {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			if !yield(name, list[name]) {
				return
			}
		}
	}
}
