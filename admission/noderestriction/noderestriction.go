// Package noderestriction lets a node write only its own objects: the NodeRestriction plugin of
// Kubernetes
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction).
//
//	nodes, err := noderestriction.New(noderestriction.Config{Pods: podInformer, Nodes: nodeInformer})
//	chain := admission.Chain{Validators: []admission.Validator{nodes}}
//
// A node is a user system:node:NAME in the group system:nodes; requests of other users pass. A node
// may
//
//   - create, update and delete the Node of its name, but not change its taints, its
//     owners, its source of configuration, or labels of kubernetes.io and k8s.io
//     beyond those a kubelet sets;
//   - create mirror pods, bound to itself, owned by itself and without references to
//     other objects; delete, evict and update the status of pods bound to itself, but
//     not their labels or resource claims;
//   - write the lease in kube-node-lease and the CSINode of its name;
//   - ask for tokens that are bound to a pod of its own, for audiences that the pod
//     names or that it has been given the right to;
//   - update the status of a claim where that is about its size;
//   - ask for certificates of its own name.
//
// The plugin checks the new object against the stored one. A pod that is not part of the request
// comes from a cache, which may be stale: a pod that is missing there, or is bound to another node,
// is looked up.
package noderestriction

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// Config configures the plugin. Pods and Nodes are required.
type Config struct {
	Pods  localcache.Getter[*corev1.Pod]
	Nodes localcache.Getter[*corev1.Node]
	// LookupPod and LookupNode read an object from the store, and fail with a NotFound API error if
	// there is none. The namespace of a node is empty. If nil, only the caches are used.
	LookupPod  func(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	LookupNode func(ctx context.Context, namespace, name string) (*corev1.Node, error)

	// Claims, Volumes and Drivers determine the audiences for which the CSI drivers of a pod's
	// volumes need tokens. If one is nil, drivers that require it need none.
	Claims  localcache.Getter[*corev1.PersistentVolumeClaim]
	Volumes localcache.Getter[*corev1.PersistentVolume]
	Drivers localcache.Getter[*storagev1.CSIDriver]
	// Authorizer decides on the verb request-serviceaccounts-token-audience when a node requests a
	// token for an audience that the pod does not name. If nil, no node has it.
	Authorizer authz.Authorizer
}

// Plugin is an [admission.Validator].
type Plugin struct{ config Config }

// New returns the plugin.
func New(c Config) (*Plugin, error) {
	if c.Pods == nil || c.Nodes == nil {
		return nil, errors.New("noderestriction: Pods and Nodes must be set")
	}
	return &Plugin{c}, nil
}

// Validate refuses writes that a node may not make.
func (p *Plugin) Validate(ctx context.Context, r *admission.Request) error {
	if r.Operation == admission.Connect || r.User == nil || !r.User.In(user.Nodes) {
		return nil
	}
	node, ok := strings.CutPrefix(r.User.Name, user.NodePrefix)
	if !ok {
		return nil
	}
	if node == "" {
		return admission.Forbidden(r, fmt.Errorf("could not determine node from user %q", r.User.Name))
	}
	err := p.restrict(ctx, r, node)
	var status apierrors.APIStatus
	if err == nil || errors.As(err, &status) {
		return err // NotFound stays as it is
	}
	return admission.Forbidden(r, err)
}

func (p *Plugin) restrict(ctx context.Context, r *admission.Request, node string) error {
	switch r.Resource.Group {
	case "":
		switch r.Resource.Resource {
		case "pods":
			return p.pod(ctx, r, node)
		case "nodes":
			return checkNode(r, node)
		case "persistentvolumeclaims":
			return checkClaim(r, node)
		case "serviceaccounts":
			return p.token(ctx, r, node)
		}
	case "coordination.k8s.io":
		if r.Resource.Resource == "leases" {
			return checkLease(r, node)
		}
	case "storage.k8s.io":
		if r.Resource.Resource == "csinodes" && called(r) != node {
			return errors.New("can only access CSINode with the same name as the requesting node")
		}
	case "certificates.k8s.io":
		if r.Resource.Resource == "certificatesigningrequests" {
			return checkCertificate(r, node)
		}
	}
	return nil
}

func checkLease(r *admission.Request, node string) error {
	if r.Namespace != corev1.NamespaceNodeLease {
		return fmt.Errorf("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	}
	if called(r) != node {
		return errors.New("can only access node lease with the same name as the requesting node")
	}
	return nil
}

// called returns the name of the object of r, which for a create is in the object.
func called(r *admission.Request) string {
	if o, ok := r.Object.(interface{ GetName() string }); ok && r.Operation == admission.Create {
		return o.GetName()
	}
	return r.Name
}

// objects returns the new and the stored object of r, both of type T.
func objects[T any](r *admission.Request) (object, old T, err error) {
	object, ok := r.Object.(T)
	if !ok {
		return object, old, fmt.Errorf("unexpected type %T", r.Object)
	}
	if old, ok = r.OldObject.(T); !ok {
		return object, old, fmt.Errorf("unexpected type %T", r.OldObject)
	}
	return object, old, nil
}

// storedPod returns the named pod. The cache is used if its pod is bound to node and has the UID,
// if one is given; otherwise it may be stale.
func (p *Plugin) storedPod(ctx context.Context, namespace, name, node string, uid types.UID) (*corev1.Pod, error) {
	pod, ok := p.config.Pods.Get(namespace + "/" + name)
	if ok && (p.config.LookupPod == nil || pod.Spec.NodeName == node && (uid == "" || pod.UID == uid)) {
		return pod, nil
	}
	if p.config.LookupPod == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
	}
	return p.config.LookupPod(ctx, namespace, name)
}

func (p *Plugin) storedNode(ctx context.Context, name string, uid types.UID) (*corev1.Node, error) {
	node, ok := p.config.Nodes.Get(name)
	if ok && (p.config.LookupNode == nil || node.UID == uid) {
		return node, nil
	}
	if p.config.LookupNode == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
	}
	return p.config.LookupNode(ctx, "", name)
}
