package noderestriction

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/authn/user"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

func checkNode(r *admission.Request, node string) error {
	if name := called(r); name != node {
		return fmt.Errorf("node %q is not allowed to modify node %q", node, name)
	}
	switch r.Operation {
	case admission.Create:
		object, ok := r.Object.(*corev1.Node)
		if !ok {
			return fmt.Errorf("unexpected type %T", r.Object)
		}
		//lint:ignore SA1019 a node might still be believed about it
		if object.Spec.ConfigSource != nil {
			return fmt.Errorf("node %q is not allowed to create pods with a non-nil configSource", node)
		}
		if labels := restricted(object.Labels, nil); labels != "" {
			return fmt.Errorf("node %q is not allowed to set the following labels: %s", node, labels)
		}
	case admission.Update:
		object, old, err := objects[*corev1.Node](r)
		if err != nil {
			return err
		}
		return nodeUpdate(object, old, node)
	}
	return nil
}

// nodeUpdate prevents a node from attracting pods that should not run on it.
func nodeUpdate(object, old *corev1.Node, node string) error {
	equal := equality.Semantic.DeepEqual
	//lint:ignore SA1019 a node might still be believed about it
	if s := object.Spec.ConfigSource; s != nil && !equal(s, old.Spec.ConfigSource) {
		return fmt.Errorf("node %q is not allowed to update configSource to a new non-nil configSource", node)
	}
	if !equal(object.Spec.Taints, old.Spec.Taints) {
		return fmt.Errorf("node %q is not allowed to modify taints", node)
	}
	if !equal(object.OwnerReferences, old.OwnerReferences) {
		return fmt.Errorf("node %q is not allowed to modify ownerReferences", node)
	}
	if labels := restricted(object.Labels, old.Labels); labels != "" {
		return fmt.Errorf("is not allowed to modify labels: %s", labels)
	}
	return nil
}

// restricted lists the changed labels that a kubelet must not set.
func restricted(labels, old map[string]string) string {
	changed := map[string]bool{}
	for key, value := range labels {
		if before, was := old[key]; !was || value != before {
			changed[key] = true
		}
	}
	for key := range old {
		if _, is := labels[key]; !is {
			changed[key] = true
		}
	}
	maps.DeleteFunc(changed, func(key string, _ bool) bool { return mayLabel(key) })
	return strings.Join(slices.Sorted(maps.Keys(changed)), ", ")
}

// kubeletLabels are the labels of kubernetes.io that a kubelet sets on its node
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction).
var kubeletLabels = map[string]bool{
	corev1.LabelHostname:                true,
	corev1.LabelTopologyZone:            true,
	corev1.LabelTopologyRegion:          true,
	corev1.LabelFailureDomainBetaZone:   true,
	corev1.LabelFailureDomainBetaRegion: true,
	corev1.LabelInstanceType:            true,
	corev1.LabelInstanceTypeStable:      true,
	corev1.LabelOSStable:                true,
	corev1.LabelArchStable:              true,
	"beta.kubernetes.io/os":             true,
	"beta.kubernetes.io/arch":           true,
}

func mayLabel(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return true
	}
	switch {
	case within(domain, corev1.LabelNamespaceNodeRestriction):
		return false
	case !within(domain, "kubernetes.io") && !within(domain, "k8s.io"):
		return true
	}
	return kubeletLabels[key] || within(domain, corev1.LabelNamespaceSuffixKubelet) || within(domain, corev1.LabelNamespaceSuffixNode)
}

func within(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}

// checkClaim allows a node to report that it has resized a volume.
func checkClaim(r *admission.Request, node string) error {
	if r.Subresource != "status" {
		return errors.New("may only update PVC status")
	}
	if r.Operation != admission.Update {
		return fmt.Errorf("unexpected operation %q", r.Operation)
	}
	object, old, err := objects[*corev1.PersistentVolumeClaim](r)
	if err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(withoutSize(object), withoutSize(old)) {
		return fmt.Errorf("node %q is not allowed to update fields other than status.quantity and status.conditions", node)
	}
	return nil
}

// withoutSize returns the claim without the fields that a node may change and those that every
// update changes.
func withoutSize(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	c := claim.DeepCopy()
	c.ResourceVersion, c.ManagedFields = "", nil
	c.Status.Capacity, c.Status.Conditions = nil, nil
	c.Status.AllocatedResources, c.Status.AllocatedResourceStatuses = nil, nil
	return c
}

// checkCertificate refuses certificate requests for other names.
func checkCertificate(r *admission.Request, node string) error {
	if r.Operation != admission.Create {
		return nil
	}
	object, ok := r.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return fmt.Errorf("unexpected type %T", r.Object)
	}
	if s := object.Spec.SignerName; s != certificatesv1.KubeletServingSignerName && s != certificatesv1.KubeAPIServerClientKubeletSignerName {
		return nil
	}
	block, _ := pem.Decode(object.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return errors.New("unable to parse csr: PEM block type must be CERTIFICATE REQUEST")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return fmt.Errorf("unable to parse csr: %w", err)
	}
	if request.Subject.CommonName != user.NodePrefix+node {
		return fmt.Errorf("can only create a node CSR with CN=%s%s", user.NodePrefix, node)
	}
	return nil
}
