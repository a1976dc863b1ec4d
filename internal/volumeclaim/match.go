package volumeclaim

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/planekit/planekit/internal/selector"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Search chooses a volume for a claim.
type Search struct {
	// Node holds the labels of the node that must reach the volume. Nil means any node.
	Node map[string]string
	// Reserved restricts the search to volumes that name the claim.
	Reserved bool
	// Taken reports whether a volume must not be chosen. Nil means that none is taken.
	Taken func(name string) bool
}

// Find returns the best volume for a claim, or nil: one that is reserved for the claim, or else, of
// those with the fewest access modes, the smallest that satisfies it. The result does not depend on
// the order of the volumes.
func (s Search) Find(claim *corev1.PersistentVolumeClaim, volumes iter.Seq[*corev1.PersistentVolume]) (*corev1.PersistentVolume, error) {
	wanted := labels.Everything()
	if claim.Spec.Selector != nil {
		var err error
		if wanted, err = selector.Of(claim.Spec.Selector); err != nil {
			return nil, fmt.Errorf("selector of claim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
	}
	var best *corev1.PersistentVolume
	for v := range volumes {
		if s.Taken != nil && s.Taken(v.Name) || !s.suits(claim, v, wanted) {
			continue
		}
		if best == nil || compare(claim, v, best) < 0 {
			best = v
		}
	}
	// A reserved volume that the node does not reach is not replaced by another.
	if best != nil && s.Node != nil && FitsNode(best, s.Node) != nil {
		return nil, nil
	}
	return best, nil
}

// suits reports whether a volume can be chosen for a claim.
func (s Search) suits(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume, wanted labels.Selector) bool {
	reserved := Reserves(v, claim)
	if v.Spec.ClaimRef != nil && !reserved || v.DeletionTimestamp != nil || !largeEnough(v, claim) ||
		Mode(v.Spec.VolumeMode) != Mode(claim.Spec.VolumeMode) || !hasModes(v, claim) ||
		value(v.Spec.VolumeAttributesClassName) != value(claim.Spec.VolumeAttributesClassName) {
		return false
	}
	if reserved || s.Reserved {
		return reserved
	}
	return v.Status.Phase == corev1.VolumeAvailable && VolumeClass(v) == Class(claim) &&
		wanted.Matches(labels.Set(v.Labels)) && (s.Node == nil || FitsNode(v, s.Node) == nil)
}

// compare orders the volumes that satisfy a claim, the best first.
func compare(claim *corev1.PersistentVolumeClaim, a, b *corev1.PersistentVolume) int {
	if x, y := Reserves(a, claim), Reserves(b, claim); x != y {
		if x {
			return -1
		}
		return 1
	}
	x, y := a.Spec.Capacity[corev1.ResourceStorage], b.Spec.Capacity[corev1.ResourceStorage]
	return cmp.Or(
		cmp.Compare(len(a.Spec.AccessModes), len(b.Spec.AccessModes)),
		cmp.Compare(modes(a.Spec.AccessModes), modes(b.Spec.AccessModes)),
		x.Cmp(y),
		cmp.Compare(a.Name, b.Name),
	)
}

// Satisfies returns nil if a volume that a claim names satisfies it, or else why not, in Kubernetes'
// words.
func Satisfies(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) error {
	switch {
	case v.DeletionTimestamp != nil:
		return fmt.Errorf("the volume is marked for deletion %q", v.Name)
	case !largeEnough(v, claim):
		return errors.New("requested PV is too small")
	case VolumeClass(v) != Class(claim):
		return errors.New("storageClassName does not match")
	case value(v.Spec.VolumeAttributesClassName) != value(claim.Spec.VolumeAttributesClassName):
		return errors.New("volumeAttributesClassName does not match")
	case Mode(v.Spec.VolumeMode) != Mode(claim.Spec.VolumeMode):
		return errors.New("incompatible volumeMode")
	case !hasModes(v, claim):
		return errors.New("incompatible accessMode")
	}
	return nil
}

func largeEnough(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	size, wanted := v.Spec.Capacity[corev1.ResourceStorage], claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return size.Cmp(wanted) >= 0
}

// hasModes reports whether a volume has all access modes that a claim asks for.
func hasModes(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	for _, m := range claim.Spec.AccessModes {
		if !slices.Contains(v.Spec.AccessModes, m) {
			return false
		}
	}
	return true
}
