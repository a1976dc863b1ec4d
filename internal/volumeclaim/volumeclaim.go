// Package volumeclaim says which claims a pod uses, and which persistent volumes satisfy a claim. The
// scheduler, the controllers and the kubelet share it, because they must agree.
//
// The rules are those of Kubernetes
// (https://kubernetes.io/docs/concepts/storage/persistent-volumes/#binding). All functions are pure.
package volumeclaim

import (
	"errors"
	"fmt"
	"iter"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// The annotations of claims and volumes, and the finalizers that keep them while they are used.
const (
	// BindCompleted is on a claim that has been bound; it may be lost since.
	BindCompleted = "pv.kubernetes.io/bind-completed"
	// BoundByController is on a claim or a volume whose other side a controller has chosen.
	BoundByController = "pv.kubernetes.io/bound-by-controller"
	// ProvisionedBy is on a volume that a provisioner has made.
	ProvisionedBy = "pv.kubernetes.io/provisioned-by"
	// Provisioner and BetaProvisioner are on a claim for which a provisioner shall make a volume.
	Provisioner     = "volume.kubernetes.io/storage-provisioner"
	BetaProvisioner = "volume.beta.kubernetes.io/storage-provisioner"
	// SelectedNode is on a claim for which a volume shall be made for a node.
	SelectedNode = "volume.kubernetes.io/selected-node"

	ClaimProtection  = "kubernetes.io/pvc-protection"
	VolumeProtection = "kubernetes.io/pv-protection"
)

// A Use is one use of a claim by a pod.
type Use struct {
	// Volume is the pod's volume and Claim the name of the claim.
	Volume *corev1.Volume
	Claim  string
	// Ephemeral says that the claim is made for the pod and must belong to it.
	Ephemeral bool
	// ReadOnly says that the pod must not write to the volume.
	ReadOnly bool
}

// UseOf returns the use of a claim by a volume of a pod; ok is false if the volume uses none.
func UseOf(pod *corev1.Pod, v *corev1.Volume) (u Use, ok bool) {
	switch {
	case v.PersistentVolumeClaim != nil:
		return Use{Volume: v, Claim: v.PersistentVolumeClaim.ClaimName, ReadOnly: v.PersistentVolumeClaim.ReadOnly}, true
	case v.Ephemeral != nil:
		return Use{Volume: v, Claim: pod.Name + "-" + v.Name, Ephemeral: true}, true
	}
	return Use{}, false
}

// Uses yields the uses of claims by a pod.
func Uses(pod *corev1.Pod) iter.Seq[Use] {
	return func(yield func(Use) bool) {
		for i := range pod.Spec.Volumes {
			if u, ok := UseOf(pod, &pod.Spec.Volumes[i]); ok && !yield(u) {
				return
			}
		}
	}
}

// CheckOwner returns an error unless the claim was made for an ephemeral volume of the pod.
func CheckOwner(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) error {
	if claim.Namespace != pod.Namespace || !metav1.IsControlledBy(claim, pod) {
		return fmt.Errorf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", claim.Namespace, claim.Name, pod.Namespace, pod.Name)
	}
	return nil
}

// Class returns the name of the class of a claim; empty means none.
func Class(claim *corev1.PersistentVolumeClaim) string {
	if class, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	return value(claim.Spec.StorageClassName)
}

// HasClass reports whether a claim says which class it has, or that it has none.
func HasClass(claim *corev1.PersistentVolumeClaim) bool {
	_, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]
	return ok || claim.Spec.StorageClassName != nil
}

// VolumeClass returns the name of the class of a volume; empty means none.
func VolumeClass(v *corev1.PersistentVolume) string {
	if class, ok := v.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	return v.Spec.StorageClassName
}

// DefaultClass returns the newest of the classes that are marked as the default, or nil.
func DefaultClass(classes iter.Seq[*storagev1.StorageClass]) *storagev1.StorageClass {
	var best *storagev1.StorageClass
	for c := range classes {
		if c.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" &&
			c.Annotations["storageclass.beta.kubernetes.io/is-default-class"] != "true" {
			continue
		}
		if best == nil || best.CreationTimestamp.Before(&c.CreationTimestamp) ||
			best.CreationTimestamp.Equal(&c.CreationTimestamp) && c.Name < best.Name {
			best = c
		}
	}
	return best
}

// Waits reports whether claims of a class are bound when a pod that uses them is scheduled.
func Waits(class *storagev1.StorageClass) bool {
	return class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// Mode returns a volume mode or its default.
func Mode(mode *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if mode == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *mode
}

// Reserves reports whether a volume is bound to a claim or reserved for its name.
func Reserves(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	ref := v.Spec.ClaimRef
	return ref != nil && ref.Name == claim.Name && ref.Namespace == claim.Namespace && (ref.UID == "" || ref.UID == claim.UID)
}

// IsBound reports whether a claim is bound from its own side.
func IsBound(claim *corev1.PersistentVolumeClaim) bool {
	_, complete := claim.Annotations[BindCompleted]
	return claim.Spec.VolumeName != "" && complete
}

// Bind returns a copy of a volume that is bound to a claim; changed is false if it was before.
func Bind(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (bound *corev1.PersistentVolume, changed bool) {
	bound = v.DeepCopy()
	if !Reserves(v, claim) && v.Annotations[BoundByController] == "" {
		metav1.SetMetaDataAnnotation(&bound.ObjectMeta, BoundByController, "yes")
		changed = true
	}
	if ref := v.Spec.ClaimRef; ref == nil || ref.Name != claim.Name || ref.Namespace != claim.Namespace || ref.UID != claim.UID {
		bound.Spec.ClaimRef = &corev1.ObjectReference{
			Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name,
			UID: claim.UID, ResourceVersion: claim.ResourceVersion,
		}
		changed = true
	}
	return bound, changed
}

// FitsNode returns an error unless a node with these labels can reach a volume.
func FitsNode(v *corev1.PersistentVolume, node map[string]string) error {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return nil
	}
	for i := range v.Spec.NodeAffinity.Required.NodeSelectorTerms {
		if matchTerm(&v.Spec.NodeAffinity.Required.NodeSelectorTerms[i], labels.Set(node)) {
			return nil
		}
	}
	return errors.New("no matching NodeSelectorTerms")
}

// operators maps the operators of node selectors to those of label selectors.
var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn:           selection.In,
	corev1.NodeSelectorOpNotIn:        selection.NotIn,
	corev1.NodeSelectorOpExists:       selection.Exists,
	corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	corev1.NodeSelectorOpGt:           selection.GreaterThan,
	corev1.NodeSelectorOpLt:           selection.LessThan,
}

// matchTerm reports whether all requirements of a term hold. A term without any matches nothing, and
// so does one about fields: a volume knows nodes by their labels.
func matchTerm(t *corev1.NodeSelectorTerm, node labels.Set) bool {
	if len(t.MatchExpressions) == 0 || len(t.MatchFields) > 0 {
		return false
	}
	for _, e := range t.MatchExpressions {
		r, err := labels.NewRequirement(e.Key, operators[e.Operator], e.Values)
		if err != nil || !r.Matches(node) {
			return false
		}
	}
	return true
}

// modes returns the access modes of a volume in one text, for messages and for sorting.
func modes(list []corev1.PersistentVolumeAccessMode) string {
	var out []string
	for _, m := range list {
		out = append(out, string(m))
	}
	return strings.Join(out, ",")
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
