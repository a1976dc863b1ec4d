package volume

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/planekit/planekit/internal/volumeclaim"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers/internal/podstatus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// syncClaim reports whether the claim waits for something.
func (c *Binder) syncClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) (waits bool, err error) {
	_, complete := claim.Annotations[volumeclaim.BindCompleted]
	switch {
	case complete:
		return false, c.syncBound(ctx, claim)
	case claim.Spec.VolumeName != "":
		return c.syncNamed(ctx, claim)
	}
	return c.syncFree(ctx, claim)
}

// syncFree binds a claim that any volume will do for.
func (c *Binder) syncFree(ctx context.Context, claim *corev1.PersistentVolumeClaim) (waits bool, err error) {
	class, _ := c.config.Classes.Get(volumeclaim.Class(claim))
	delayed := volumeclaim.Waits(class)
	v, err := volumeclaim.Search{Reserved: delayed}.Find(claim, c.config.Volumes.All())
	if err != nil {
		return false, err
	}
	if v != nil {
		return false, c.bind(ctx, v, claim)
	}
	if !volumeclaim.HasClass(claim) {
		if class := volumeclaim.DefaultClass(c.config.Classes.All()); class != nil {
			next := claim.DeepCopy()
			next.Spec.StorageClassName = &class.Name
			_, err := c.config.ClaimClient.Update(ctx, next)
			return false, err
		}
	}
	_, selected := claim.Annotations[volumeclaim.SelectedNode]
	switch {
	case delayed && !selected:
		c.tellDelay(claim)
	case volumeclaim.Class(claim) != "":
		return true, c.provision(ctx, claim, class)
	default:
		c.claimEvent(claim, corev1.EventTypeNormal, "FailedBinding", "no persistent volumes available for this claim and no storage class is set")
	}
	_, err = c.setClaimStatus(ctx, claim, corev1.ClaimPending, nil)
	return true, err
}

// tellDelay records an event about what a claim waits for that is bound when a pod is scheduled.
func (c *Binder) tellDelay(claim *corev1.PersistentVolumeClaim) {
	var pods []string
	for pod := range c.config.PodsByClaim.Get(localcache.KeyOf(claim)) {
		if pod.Spec.NodeName == "" && !podstatus.Ended(pod) {
			pods = append(pods, pod.Name)
		}
	}
	slices.Sort(pods)
	reason, message := "WaitForFirstConsumer", "waiting for first consumer to be created before binding"
	switch {
	case len(pods) == 1:
		reason, message = "WaitForPodScheduled", fmt.Sprintf("waiting for pod %s to be scheduled", pods[0])
	case len(pods) > 1:
		reason, message = "WaitForPodScheduled", fmt.Sprintf("waiting for pods %s to be scheduled", strings.Join(pods, ","))
	}
	c.claimEvent(claim, corev1.EventTypeNormal, reason, message)
}

// provision asks a provisioner outside to make a volume. Those of kubernetes.io were part of
// Kubernetes.
func (c *Binder) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) error {
	var failure string
	switch {
	case class == nil:
		failure = fmt.Sprintf("storageclass.storage.k8s.io %q not found", volumeclaim.Class(claim))
	case strings.HasPrefix(class.Provisioner, "kubernetes.io/"):
		failure = "no volume plugin matched name: " + class.Provisioner
	}
	if failure != "" {
		c.claimEvent(claim, corev1.EventTypeWarning, "ProvisioningFailed", failure)
		return nil
	}
	if claim.Annotations[volumeclaim.Provisioner] != class.Provisioner {
		next := claim.DeepCopy()
		if next.Annotations == nil {
			next.Annotations = map[string]string{}
		}
		next.Annotations[volumeclaim.Provisioner] = class.Provisioner
		next.Annotations[volumeclaim.BetaProvisioner] = class.Provisioner
		if _, err := c.config.ClaimClient.Update(ctx, next); err != nil {
			return err
		}
	}
	c.claimEvent(claim, corev1.EventTypeNormal, "ExternalProvisioning", fmt.Sprintf(
		"Waiting for a volume to be created either by the external provisioner '%s' or manually by the system administrator. "+
			"If volume creation is delayed, please verify that the provisioner is running and correctly registered.", class.Provisioner))
	return nil
}

// syncNamed binds a claim that names its volume.
func (c *Binder) syncNamed(ctx context.Context, claim *corev1.PersistentVolumeClaim) (waits bool, err error) {
	v, ok := c.config.Volumes.Get(claim.Spec.VolumeName)
	switch {
	case !ok:
	case v.Spec.ClaimRef == nil:
		unfit := volumeclaim.Satisfies(v, claim)
		if unfit == nil {
			return false, c.bind(ctx, v, claim)
		}
		c.claimEvent(claim, corev1.EventTypeWarning, "VolumeMismatch", fmt.Sprintf("Cannot bind to requested volume %q: %s", v.Name, unfit))
	case volumeclaim.Reserves(v, claim):
		return false, c.bind(ctx, v, claim)
	default:
		c.claimEvent(claim, corev1.EventTypeWarning, "FailedBinding", fmt.Sprintf("volume %q already bound to a different claim.", v.Name))
	}
	_, err = c.setClaimStatus(ctx, claim, corev1.ClaimPending, nil)
	return true, err
}

// syncBound completes the binding of a claim that was bound once, or marks the claim as lost.
func (c *Binder) syncBound(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	lose := func(reason, message string) error {
		if claim.Status.Phase == corev1.ClaimLost {
			return nil
		}
		_, err := c.setClaimStatus(ctx, claim, corev1.ClaimLost, nil)
		if err == nil {
			c.claimEvent(claim, corev1.EventTypeWarning, reason, message)
		}
		return err
	}
	if claim.Spec.VolumeName == "" {
		return lose("ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
	}
	v, ok := c.config.Volumes.Get(claim.Spec.VolumeName)
	if !ok || v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID != claim.UID {
		var err error // the cache may be behind
		if v, err = ignoreNotFound(c.config.VolumeClient.Get(ctx, "", claim.Spec.VolumeName)); err != nil {
			return err
		}
	}
	switch {
	case v == nil:
		return lose("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	case v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID != claim.UID:
		return lose("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
	}
	return c.bind(ctx, v, claim)
}

// setClaimStatus writes the phase of a claim, and what it has of a volume, if there is one.
func (c *Binder) setClaimStatus(ctx context.Context, claim *corev1.PersistentVolumeClaim, phase corev1.PersistentVolumeClaimPhase, v *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, error) {
	next := claim.DeepCopy()
	s := &next.Status
	if v == nil {
		s.AccessModes, s.Capacity, s.CurrentVolumeAttributesClassName = nil, nil, nil
	} else {
		s.AccessModes = v.Spec.AccessModes
		if s.Phase != phase { // a bound claim may be smaller than its volume while it is resized
			s.Capacity, s.CurrentVolumeAttributesClassName = v.Spec.Capacity, v.Spec.VolumeAttributesClassName
		}
	}
	s.Phase = phase
	if reflect.DeepEqual(claim.Status, next.Status) {
		return claim, nil
	}
	next, err := c.config.ClaimClient.UpdateStatus(ctx, next)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	return next, nil
}
