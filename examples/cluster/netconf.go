package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/stack"
)

const (
	// networkName is the ConfigMap with the network of all nodes, and the Role that lets them read it.
	networkName = "cluster-network"
	// networkKey is its key, with a value in the form that flannel's configuration has.
	networkKey = "net-conf.json"
	// networkPoll is how often a node asks for it until there is one.
	networkPoll = time.Second
)

// netConf is the network of all nodes.
type netConf struct {
	// Network is the range of the addresses of pods.
	Network netip.Prefix
	Backend struct {
		Type string
	}
	// ServiceNetworks are the ranges of the addresses of services.
	ServiceNetworks []netip.Prefix
}

// publishNetwork writes the network for nodes in other processes, if there can be some. It is a [plane.Part].
func (c *cluster) publishNetwork(ctx context.Context, p *plane.Plane, _ *stack.Stack) error {
	if c.options.role != roleServer && !c.gateway.IsValid() {
		return nil
	}
	conf := netConf{Network: c.podNetwork, ServiceNetworks: c.options.kube.ServiceCIDRs()}
	conf.Backend.Type = c.options.overlay
	data, err := json.Marshal(conf)
	if err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: networkName}
	api := p.Client()
	err = errors.Join(
		put(ctx, typed.ConfigMaps(api), &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{networkKey: string(data)}}),
		put(ctx, typed.Roles(api), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{networkName}, Verbs: []string{"get"}},
		}}),
		put(ctx, typed.RoleBindings(api), &rbacv1.RoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: networkName},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: user.Nodes}},
		}),
		// The overlay of a node reads where the other nodes are, and its service proxy where services lead.
		put(ctx, typed.ClusterRoles(api), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: networkName}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"nodes", "services"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{discoveryv1.GroupName}, Resources: []string{"endpointslices"}, Verbs: []string{"get", "list", "watch"}},
		}}),
		put(ctx, typed.ClusterRoleBindings(api), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: networkName},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: networkName},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: user.Nodes}},
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

// readNetwork reads the network that the control plane has published, once there is one.
func (c *cluster) readNetwork(ctx context.Context, api *client.Client) (netConf, error) {
	for said := false; ; said = true {
		var conf netConf
		published, err := typed.ConfigMaps(api).Get(ctx, metav1.NamespaceSystem, networkName)
		if err == nil {
			err = json.Unmarshal([]byte(published.Data[networkKey]), &conf)
		}
		if err == nil && !conf.Network.IsValid() {
			err = fmt.Errorf("configmaps/%s: %s has no Network", networkName, networkKey)
		}
		if err == nil {
			return conf, nil
		}
		if !said {
			c.log.Info("waiting for the control plane", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return conf, ctx.Err()
		case <-time.After(networkPoll):
		}
	}
}
