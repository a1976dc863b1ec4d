package usage

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

var claimNames = []corev1.ResourceName{
	"count/persistentvolumeclaims", corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage,
}

// ofClass connects a storage class and a resource name to the name of the resource for that class.
const ofClass = ".storageclass.storage.k8s.io/"

// classed reports whether claims count as name, which contains a storage class.
func classed(name corev1.ResourceName) bool {
	return strings.HasSuffix(string(name), string(ofClass+corev1.ResourcePersistentVolumeClaims)) ||
		strings.HasSuffix(string(name), string(ofClass+corev1.ResourceRequestsStorage))
}

func ofClaim(object any, _ time.Time) (corev1.ResourceList, error) {
	c, ok := object.(*corev1.PersistentVolumeClaim)
	if !ok {
		return nil, fmt.Errorf("a %T is not a persistent volume claim", object)
	}
	list := corev1.ResourceList{"count/persistentvolumeclaims": one(), corev1.ResourcePersistentVolumeClaims: one()}
	if q, ok := c.Spec.Resources.Requests[corev1.ResourceStorage]; ok {
		// While a volume grows, or after that failed, the allocated size counts.
		if allocated, ok := c.Status.AllocatedResources[corev1.ResourceStorage]; ok && allocated.Cmp(q) > 0 {
			q = allocated
		}
		q = q.DeepCopy()
		q.RoundUp(0) // whole bytes
		list[corev1.ResourceRequestsStorage] = q
	}
	class := claimClass(c)
	if class == "" {
		return list, nil
	}
	for _, name := range claimNames[1:] {
		if q, ok := list[name]; ok {
			list[corev1.ResourceName(class+ofClass)+name] = q.DeepCopy()
		}
	}
	return list, nil
}

func claimClass(c *corev1.PersistentVolumeClaim) string {
	if class, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	if c.Spec.StorageClassName != nil {
		return *c.Spec.StorageClassName
	}
	return ""
}

// claimIn reports whether a claim is in a scope: whether the scope selects the volume attributes
// class that the claim has, requests, or is being moved to.
func claimIn(scope corev1.ScopedResourceSelectorRequirement, object any) (bool, error) {
	c, ok := object.(*corev1.PersistentVolumeClaim)
	if !ok {
		return false, fmt.Errorf("a %T is not a persistent volume claim", object)
	}
	if scope.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass {
		return false, nil
	}
	var classes []string
	for _, class := range []*string{c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName} {
		if class != nil && *class != "" {
			classes = append(classes, *class)
		}
	}
	if m := c.Status.ModifyVolumeStatus; m != nil && m.TargetVolumeAttributesClassName != "" {
		classes = append(classes, m.TargetVolumeAttributesClassName)
	}
	if len(classes) == 0 {
		return selects(scope, "")
	}
	for _, class := range classes {
		if ok, err := selects(scope, class); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}
