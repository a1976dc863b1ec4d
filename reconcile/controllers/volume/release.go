package volume

import (
	"context"
	"fmt"
	"strings"

	"github.com/planekit/planekit/internal/volumeclaim"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
)

// syncVolume keeps the phase of a volume, and releases it when its claim is gone.
func (c *Binder) syncVolume(ctx context.Context, v *corev1.PersistentVolume) error {
	if v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID == "" {
		_, err := c.setPhase(ctx, v, corev1.VolumeAvailable) // perhaps reserved for a claim
		return err
	}
	claim, err := c.claimOf(ctx, v)
	if err != nil {
		return err
	}
	switch {
	case claim == nil:
		return c.release(ctx, v)
	case claim.Spec.VolumeName == "":
		if volumeclaim.Mode(claim.Spec.VolumeMode) != volumeclaim.Mode(v.Spec.VolumeMode) {
			c.volumeEvent(v, corev1.EventTypeWarning, "VolumeMismatch",
				fmt.Sprintf("Cannot bind PersistentVolume to requested PersistentVolumeClaim %q due to incompatible volumeMode.", claim.Name))
			c.claimEvent(claim, corev1.EventTypeWarning, "VolumeMismatch",
				fmt.Sprintf("Cannot bind PersistentVolume %q to requested PersistentVolumeClaim due to incompatible volumeMode.", v.Name))
			return nil
		}
		c.Enqueue(localcache.KeyOf(claim)) // which completes the binding
		return nil
	case claim.Spec.VolumeName == v.Name:
		_, err := c.setPhase(ctx, v, corev1.VolumeBound)
		return err
	case v.Annotations[volumeclaim.ProvisionedBy] != "" && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		return c.release(ctx, v) // made for a claim that has another volume now
	}
	return c.unbind(ctx, v)
}

// claimOf returns the claim that a volume is bound to, or nil if it is gone. Before a volume is
// released, the API is asked, because the cache may be behind.
func (c *Binder) claimOf(ctx context.Context, v *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, error) {
	ref := v.Spec.ClaimRef
	claim, ok := c.config.Claims.Get(localcache.Key(ref.Namespace, ref.Name))
	if ok && claim.UID == ref.UID {
		return claim, nil
	}
	if v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed {
		if !ok {
			return nil, nil
		}
	}
	claim, err := ignoreNotFound(c.config.ClaimClient.Get(ctx, ref.Namespace, ref.Name))
	if claim == nil || claim.UID != ref.UID {
		return nil, err
	}
	return claim, nil
}

// release marks a volume as released and applies its reclaim policy. A volume that has failed stays
// so.
func (c *Binder) release(ctx context.Context, v *corev1.PersistentVolume) error {
	if v.Status.Phase != corev1.VolumeReleased && v.Status.Phase != corev1.VolumeFailed {
		var err error
		if v, err = c.setPhase(ctx, v, corev1.VolumeReleased); err != nil {
			return err
		}
	}
	reason, message := reclaim(v)
	if reason == "" || v.Status.Phase == corev1.VolumeFailed {
		return nil
	}
	next := v.DeepCopy()
	next.Status.Phase, next.Status.Message = corev1.VolumeFailed, message
	if _, err := c.config.VolumeClient.UpdateStatus(ctx, next); err != nil {
		return err
	}
	c.volumeEvent(v, corev1.EventTypeWarning, reason, message)
	return nil
}

// reclaim returns why the policy of a released volume cannot be applied; no reason means that there
// is nothing to do, or that a provisioner outside does it.
func reclaim(v *corev1.PersistentVolume) (reason, message string) {
	switch v.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimRetain:
		return "", ""
	case corev1.PersistentVolumeReclaimRecycle:
		return "VolumeFailedRecycle", "No recycler plugin found for the volume!"
	case corev1.PersistentVolumeReclaimDelete:
	default:
		return "VolumeUnknownReclaimPolicy", "Volume has unrecognized PersistentVolumeReclaimPolicy"
	}
	if by := v.Annotations[volumeclaim.ProvisionedBy]; v.Spec.CSI != nil || by != "" && !strings.HasPrefix(by, "kubernetes.io/") {
		return "", ""
	}
	if p := v.Spec.HostPath; p != nil && (!strings.HasPrefix(p.Path, "/tmp/") || p.Path == "/tmp/") {
		return "VolumeFailedDelete", "host_path deleter only supports /tmp/.+ but received provided " + p.Path
	}
	return "VolumeFailedDelete", fmt.Sprintf("error getting deleter volume plugin for volume %q: no deletable volume plugin matched", v.Name)
}

// unbind frees a volume whose claim has another. A reservation by a user stays.
func (c *Binder) unbind(ctx context.Context, v *corev1.PersistentVolume) error {
	next := v.DeepCopy()
	if _, ours := next.Annotations[volumeclaim.BoundByController]; ours {
		next.Spec.ClaimRef = nil
		delete(next.Annotations, volumeclaim.BoundByController)
	} else {
		next.Spec.ClaimRef.UID = ""
	}
	next, err := c.config.VolumeClient.Update(ctx, next)
	if err == nil {
		_, err = c.setPhase(ctx, next, corev1.VolumeAvailable)
	}
	return err
}

// setPhase writes the phase of a volume.
func (c *Binder) setPhase(ctx context.Context, v *corev1.PersistentVolume, phase corev1.PersistentVolumePhase) (*corev1.PersistentVolume, error) {
	if v.Status.Phase == phase {
		return v, nil
	}
	next := v.DeepCopy()
	next.Status.Phase, next.Status.Message = phase, ""
	return c.config.VolumeClient.UpdateStatus(ctx, next)
}
