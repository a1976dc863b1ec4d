package certificates

import (
	"context"
	"crypto/x509"
	"net"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
)

// ServingApproverConfig configures a ServingApprover. All fields before Names are required.
type ServingApproverConfig struct {
	Requests localcache.Cache[*certificatesv1.CertificateSigningRequest]
	Nodes    localcache.Cache[*corev1.Node]
	Writer   ApprovalUpdater
	// Names refuses what no node can have.
	Names NodeNames
	// Workers is the number of requests processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// ServingApprover approves requests of the signer kubernetes.io/kubelet-serving that a node makes for
// itself, if the Node object exists and has each of the requested names and addresses in its status. The
// node's own name counts as one. Any other request stays pending, for a person to decide, and the
// ServingApprover looks at it again when the Node object changes.
//
// A node writes its own addresses. So Config.Names refuses those that no node can have, and those that an
// older node has are refused as well; the log says so. Beyond that a node gets what it claims: clients of
// kubelets must verify the subject, and other clients must not trust the authority.
type ServingApprover struct {
	*reconcile.Controller[string]
	config ServingApproverConfig
}

// NewServingApprover returns a controller, or an error if config lacks a required field. It starts
// nothing.
func NewServingApprover(config ServingApproverConfig) (*ServingApprover, error) {
	err := loop.Required("certificates: ServingApproverConfig", "Requests", config.Requests, "Nodes", config.Nodes, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	c := &ServingApprover{config: config}
	if c.Controller, err = loop.New(loop.Config{Name: "csrapproving-kubelet-serving", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.Watch(c.Controller, config.Requests, reconcile.Itself(localcache.KeyOf[*request]))
	reconcile.WatchFunc(c.Controller, config.Nodes, func(old, new *corev1.Node) {
		if new == nil || old != nil && slices.Equal(old.Status.Addresses, new.Status.Addresses) {
			return
		}
		for r := range config.Requests.All() {
			if r.Spec.Username == user.NodePrefix+new.Name && isPending(r) {
				c.Enqueue(localcache.KeyOf(r))
			}
		}
	})
	return c, nil
}

func (c *ServingApprover) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	r, ok := c.config.Requests.Get(key)
	if !ok || !isPending(r) || r.Spec.SignerName != certificatesv1.KubeletServingSignerName {
		return reconcile.Result{}, nil
	}
	parsed, err := parse(r.Spec.Request)
	if err != nil || checkNodeServing(parsed, r.Spec.Usages) != nil {
		return reconcile.Result{}, nil
	}
	name, isNode := strings.CutPrefix(r.Spec.Username, user.NodePrefix)
	if !isNode || r.Spec.Username != parsed.Subject.CommonName || !slices.Contains(r.Spec.Groups, user.Nodes) {
		return reconcile.Result{}, nil
	}
	node, ok := c.config.Nodes.Get(name)
	if !ok || node.DeletionTimestamp != nil || !hasNames(node, parsed) {
		return reconcile.Result{}, nil
	}
	err = c.config.Names.check(parsed)
	if err == nil {
		err = c.config.Names.ofAnother(node, parsed, c.config.Nodes.All())
	}
	if err != nil {
		c.config.Log.Info("the serving certificate of a node is not approved", "request", key, "node", name, "reason", err.Error())
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, approve(ctx, c.config.Writer, r, "Auto approving kubelet serving certificate with the names and addresses of its Node.")
}

// hasNames reports whether a Node has all names and addresses of a request.
func hasNames(node *corev1.Node, parsed *x509.CertificateRequest) bool {
	names, addresses := []string{node.Name}, []net.IP{}
	for _, address := range node.Status.Addresses {
		switch address.Type {
		case corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeExternalDNS:
			names = append(names, address.Address)
		case corev1.NodeInternalIP, corev1.NodeExternalIP:
			if ip := net.ParseIP(address.Address); ip != nil {
				addresses = append(addresses, ip)
			}
		}
	}
	for _, name := range parsed.DNSNames {
		if !slices.Contains(names, name) {
			return false
		}
	}
	for _, ip := range parsed.IPAddresses {
		if !slices.ContainsFunc(addresses, ip.Equal) {
			return false
		}
	}
	return true
}
