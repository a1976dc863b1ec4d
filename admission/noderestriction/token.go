package noderestriction

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/authz"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// token allows a node to request tokens that are bound to one of its pods.
func (p *Plugin) token(ctx context.Context, r *admission.Request, node string) error {
	if r.Operation != admission.Create || r.Subresource != "token" {
		return nil
	}
	request, ok := r.Object.(*authenticationv1.TokenRequest)
	if !ok {
		return fmt.Errorf("unexpected type %T", r.Object)
	}
	ref := request.Spec.BoundObjectRef
	if ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "" {
		return errors.New("node requested token not bound to a pod")
	}
	if ref.UID == "" {
		return errors.New("node requested token with a pod binding without a uid")
	}
	pod, err := p.storedPod(ctx, r.Namespace, ref.Name, node, ref.UID)
	if err != nil {
		return err
	}
	if ref.UID != pod.UID {
		return fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID)
	}
	if pod.Spec.NodeName != node {
		return errors.New("node requested token bound to a pod scheduled on a different node")
	}
	if pod.Spec.ServiceAccountName != r.Name {
		return fmt.Errorf("node requested token for a service account that pod %s/%s does not run as", r.Namespace, ref.Name)
	}
	return p.audience(ctx, r, request.Spec.Audiences, pod)
}

// audience checks that the pod needs a token for the audiences.
func (p *Plugin) audience(ctx context.Context, r *admission.Request, audiences []string, pod *corev1.Pod) error {
	if len(audiences) > 1 {
		return errors.New("node may only request 0 or 1 audiences")
	}
	audience := ""
	if len(audiences) == 1 {
		audience = audiences[0]
	}
	wants := func(v corev1.Volume) bool { return p.wants(pod, &v, audience) }
	if slices.ContainsFunc(pod.Spec.Volumes, wants) {
		return nil
	}
	if p.config.Authorizer != nil {
		// The audience is used as a resource: "*" means all audiences.
		decision, _, err := p.config.Authorizer.Authorize(ctx, authz.Attributes{
			User: r.User, Verb: "request-serviceaccounts-token-audience", Version: "v1",
			Namespace: r.Namespace, Resource: audience, Name: r.Name,
		})
		if decision == authz.Allow {
			return nil
		}
		if err != nil {
			return fmt.Errorf("audience %q not found in pod spec volume, error authorizing %s to request tokens for this audience: %w", audience, r.User.Name, err)
		}
	}
	return fmt.Errorf("audience %q not found in pod spec volume, %s is not authorized to request tokens for this audience", audience, r.User.Name)
}

// wants reports whether a volume uses a token for audience: in a file, or for the driver that
// mounts it.
func (p *Plugin) wants(pod *corev1.Pod, v *corev1.Volume, audience string) bool {
	switch {
	case v.Projected != nil:
		return slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.ServiceAccountToken != nil && s.ServiceAccountToken.Audience == audience
		})
	case v.CSI != nil:
		return p.driverWants(v.CSI.Driver, audience)
	case v.PersistentVolumeClaim != nil:
		return p.driverWants(p.driver(pod.Namespace, v.PersistentVolumeClaim.ClaimName), audience)
	case v.Ephemeral != nil:
		return p.driverWants(p.driver(pod.Namespace, pod.Name+"-"+v.Name), audience)
	}
	return false
}

// driver returns the CSI driver of the volume that a claim is bound to, or "".
func (p *Plugin) driver(namespace, claim string) string {
	if p.config.Claims == nil || p.config.Volumes == nil {
		return ""
	}
	c, ok := p.config.Claims.Get(namespace + "/" + claim)
	if !ok || c.Spec.VolumeName == "" {
		return ""
	}
	v, ok := p.config.Volumes.Get(c.Spec.VolumeName)
	if !ok || v.Spec.CSI == nil {
		return ""
	}
	return v.Spec.CSI.Driver
}

func (p *Plugin) driverWants(name, audience string) bool {
	if name == "" || p.config.Drivers == nil {
		return false
	}
	driver, ok := p.config.Drivers.Get(name)
	return ok && slices.ContainsFunc(driver.Spec.TokenRequests, func(t storagev1.TokenRequest) bool { return t.Audience == audience })
}
