package volumes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/planekit/planekit/internal/volumeclaim"
	corev1 "k8s.io/api/core/v1"
)

// A PersistentPlugin is a [Plugin] that sets up persistent volumes. A pod uses them through a claim:
// SetUp finds the persistent volume in [Volume].Persistent.
type PersistentPlugin interface {
	Plugin
	// SupportsPersistent reports whether the plugin sets up a persistent volume. The first plugin
	// that supports it does.
	SupportsPersistent(*corev1.PersistentVolume) bool
}

// Claims holds the functions with which a [Set] finds the persistent volume behind a claim.
type Claims struct {
	Claim            func(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error)
	PersistentVolume func(ctx context.Context, name string) (*corev1.PersistentVolume, error)
	// NodeLabels returns the labels of this node. It is called for volumes with a node affinity.
	NodeLabels func(ctx context.Context) (map[string]string, error)
}

// With returns a copy of the set that also sets up volumes with a claim. Without it, a set can do so
// only if one of its plugins supports such a [corev1.Volume] itself.
func (s *Set) With(c Claims) *Set { return &Set{plugins: s.plugins, claims: &c} }

// ClaimError names the volumes of a pod whose claims lead to no persistent volume.
type ClaimError struct {
	Volumes []string
	Err     error
}

// Error returns Kubernetes' message for such events.
func (e *ClaimError) Error() string {
	return fmt.Sprintf("Unable to attach or mount volumes: unmounted volumes=%v, unattached volumes=[], failed to process volumes=%v: %v",
		e.Volumes, e.Volumes, e.Err)
}

func (e *ClaimError) Unwrap() error { return e.Err }

// persistent holds the persistent volume of a claim, and how the pod uses it.
type persistent struct {
	volume   *corev1.PersistentVolume
	readOnly bool
}

// resolve returns the persistent volumes of a pod by the names of its volumes. All claims are looked
// at, so that the error names each that is not ready.
func (s *Set) resolve(ctx context.Context, pod *corev1.Pod) (map[string]persistent, error) {
	found := map[string]persistent{}
	var failed ClaimError
	var texts []string
	for u := range volumeclaim.Uses(pod) {
		if s.claims == nil || s.pluginFor(u.Volume) != nil {
			continue
		}
		v, err := s.claims.find(ctx, pod, u)
		if err != nil {
			failed.Volumes = append(failed.Volumes, u.Volume.Name)
			texts = append(texts, err.Error())
			failed.Err = err
			continue
		}
		found[u.Volume.Name] = persistent{v, u.ReadOnly}
	}
	switch {
	case len(texts) > 1:
		slices.Sort(texts)
		failed.Err = errors.New(strings.Join(texts, "; "))
		fallthrough
	case len(texts) == 1:
		return nil, &failed
	}
	return found, nil
}

// find returns the persistent volume that a claim of a pod is bound to. The texts of its errors are
// Kubernetes'.
func (c *Claims) find(ctx context.Context, pod *corev1.Pod, u volumeclaim.Use) (*corev1.PersistentVolume, error) {
	claim, err := c.bound(ctx, pod.Namespace, u.Claim)
	if err == nil && u.Ephemeral {
		if err := volumeclaim.CheckOwner(pod, claim); err != nil {
			return nil, err
		}
	}
	var v *corev1.PersistentVolume
	if err == nil {
		v, err = c.volumeOf(ctx, claim)
	}
	if err != nil {
		return nil, fmt.Errorf("error processing PVC %s/%s: %w", pod.Namespace, u.Claim, err)
	}
	return v, checkMode(pod, u.Volume.Name, volumeclaim.Mode(v.Spec.VolumeMode))
}

func (c *Claims) bound(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	claim, err := c.Claim(ctx, namespace, name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("failed to fetch PVC from API server: %w", err)
	case claim.DeletionTimestamp != nil && !slices.Contains(claim.Finalizers, volumeclaim.ClaimProtection):
		return nil, errors.New("PVC is being deleted")
	case claim.Status.Phase != corev1.ClaimBound:
		return nil, errors.New("PVC is not bound")
	case claim.Spec.VolumeName == "":
		return nil, errors.New("PVC has empty pvc.Spec.VolumeName")
	}
	return claim, nil
}

func (c *Claims) volumeOf(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, error) {
	name := claim.Spec.VolumeName
	v, err := c.PersistentVolume(ctx, name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("failed to fetch PV %s from API server: %w", name, err)
	case v.Spec.ClaimRef == nil:
		return nil, fmt.Errorf("found PV object %s but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim", name)
	case v.Spec.ClaimRef.UID != claim.UID:
		return nil, fmt.Errorf("found PV object %s but its pv.Spec.ClaimRef.UID %s does not point to claim.UID %s", name, v.Spec.ClaimRef.UID, claim.UID)
	}
	return v, nil
}

// checkMode returns an error if a container uses a volume of one mode as if it had the other.
func checkMode(pod *corev1.Pod, name string, mode corev1.PersistentVolumeMode) error {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			mounted := slices.ContainsFunc(list[i].VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == name })
			if mounted && mode != corev1.PersistentVolumeFilesystem {
				return fmt.Errorf("volume %s has volumeMode %s, but is specified in volumeMounts", name, mode)
			}
			device := slices.ContainsFunc(list[i].VolumeDevices, func(d corev1.VolumeDevice) bool { return d.Name == name })
			if device && mode != corev1.PersistentVolumeBlock {
				return fmt.Errorf("volume %s has volumeMode %s, but is specified in volumeDevices", name, mode)
			}
		}
	}
	return nil
}

// setUpPersistent sets up a persistent volume.
func (s *Set) setUpPersistent(ctx context.Context, v *Volume, podDirectory string) (string, error) {
	if volumeclaim.Mode(v.Persistent.Spec.VolumeMode) != corev1.PersistentVolumeFilesystem {
		return "", errors.New("block devices are not supported by this kubelet")
	}
	if a := v.Persistent.Spec.NodeAffinity; a != nil && a.Required != nil {
		labels, err := s.claims.NodeLabels(ctx)
		if err == nil {
			err = volumeclaim.FitsNode(v.Persistent, labels)
		}
		if err != nil {
			return "", &stepError{"MountVolume.NodeAffinity check failed", err}
		}
	}
	for _, p := range s.plugins {
		if persists, ok := p.(PersistentPlugin); ok && persists.SupportsPersistent(v.Persistent) {
			return setUp(ctx, p, v, podDirectory, v.Persistent.Name)
		}
	}
	return "", errUnsupported
}
