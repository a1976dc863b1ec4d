// Package podnetwork connects the pods of nodes that run in processes of their own, on one machine or on several: a
// control plane publishes the network, and each node reads it, carries packets to the pods of other nodes (package
// overlay), makes the addresses of services lead to pods (package proxy), answers to their names (package dns) and
// enforces NetworkPolicies (package policy).
//
//	// On the control plane:
//	err := podnetwork.Publish(ctx, p.Client(), network)
//
//	// In the process of a node:
//	network, err := podnetwork.Read(ctx, api, log)
//	member, err := podnetwork.Start(s, podnetwork.Config{Node: name, Client: api, Network: network})
//	mtu, err := member.MTU(ctx) // for the interfaces of pods, once they may start
//
// # Files
//
// The network is in the ConfigMap kube-system/cluster-network under the key net-conf.json, in the form that flannel's
// configuration has, with the ranges of services beside it. All nodes may read it, and what an overlay, a service proxy
// and policies need: nodes, services, endpoint slices, policies, namespaces and all pods, whose labels and addresses
// policies ask for.
//
// # Names
//
// Each node has a DNS server of its own, at [DNSPort] of its address. [KeepDNS] makes it reachable at the tenth address
// of services: by a Service without selector whose endpoints are the nodes, and whose policy sends a pod to its own node.
//
// # Policies
//
// A pod is closed until its rules are in the kernel: [Member.Protect] returns once they are, and the kubelet starts no container
// before. Its policies are those that were there when it started. Pods keep their rules when the process ends at once,
// and pods that start meanwhile are closed. [Member.MTU] returns once the policies of the node hold.
//
// # Health and metrics
//
// As kube-proxy, a node serves /healthz and /livez at port 10256 of all its addresses, and /metrics at port 10249 of the
// loopback address, with the series of kube-proxy and of CoreDNS.
//
// # Failure
//
// Read waits until there is a network. A part that fails ends the stack. When the stack stops, all parts remove what they
// have set in the kernel; the pods of the node must have ended by then. A stack that leaves what outlives the process
// leaves all of it but the DNS server.
package podnetwork

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
)

const (
	// name names the ConfigMap, and the roles that let nodes read it.
	name = "cluster-network"
	// key is the key of the network in the ConfigMap.
	key = "net-conf.json"
	// poll is how often Read asks for the ConfigMap until there is one.
	poll = time.Second
)

// Network describes the network of all nodes.
type Network struct {
	// Pods is the range of the addresses of pods.
	Pods netip.Prefix `json:"Network"`
	// Backend is how packets get to pods on other nodes.
	Backend Backend
	// Services are the ranges of the addresses of services.
	Services []netip.Prefix `json:"ServiceNetworks"`
	// DNS is the address of the cluster's DNS, as [DNSAddress] returns; not valid if nodes run no DNS server.
	DNS netip.Addr `json:",omitzero"`
}

// Backend describes the backend of an overlay.
type Backend struct {
	// Type is vxlan, host-gw or udp.
	Type string
}

// Publish writes the network for nodes, or replaces the one there is. The client must be an administrator's.
func Publish(ctx context.Context, api *client.Client, n Network) error {
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}
	nodes := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: user.Nodes}}
	err = errors.Join(
		put(ctx, typed.ConfigMaps(api), &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{key: string(data)}}),
		put(ctx, typed.Roles(api), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{name}, Verbs: []string{"get"}},
		}}),
		put(ctx, typed.RoleBindings(api), &rbacv1.RoleBinding{
			ObjectMeta: meta, Subjects: nodes,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		}),
		// The overlay of a node reads where the other nodes are, its service proxy where services lead, and its enforcer of
		// policies which pods have which addresses.
		put(ctx, typed.ClusterRoles(api), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"nodes", "services", "pods", "namespaces"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{discoveryv1.GroupName}, Resources: []string{"endpointslices"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{networkingv1.GroupName}, Resources: []string{"networkpolicies"}, Verbs: []string{"get", "list", "watch"}},
		}}),
		put(ctx, typed.ClusterRoleBindings(api), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: nodes,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		}),
	)
	if err != nil {
		return fmt.Errorf("publish the network: %w", err)
	}
	return nil
}

// put creates an object, or replaces the one there is.
func put[T client.Object](ctx context.Context, resource client.Resource[T], object T) error {
	_, err := resource.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		_, err = resource.Update(ctx, object)
	}
	return err
}

// Read reads the network that the control plane has published. It asks every second until there is one, also while
// the control plane is away, and returns the error of ctx when that ends. The first reason to wait is logged.
func Read(ctx context.Context, api *client.Client, log logr.Logger) (Network, error) {
	for said := false; ; said = true {
		var n Network
		published, err := typed.ConfigMaps(api).Get(ctx, metav1.NamespaceSystem, name)
		if err == nil {
			err = json.Unmarshal([]byte(published.Data[key]), &n)
		}
		if err == nil && !n.Pods.IsValid() {
			err = fmt.Errorf("configmaps/%s: %s has no Network", name, key)
		}
		if err == nil {
			return n, nil
		}
		if !said {
			log.Info("waiting for the control plane", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return n, ctx.Err()
		case <-time.After(poll):
		}
	}
}
