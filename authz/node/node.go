// Package node lets each node read only what its own pods need. It is the Node authorizer of
// Kubernetes (https://kubernetes.io/docs/reference/access-authn-authz/node/).
//
//	nodes, err := node.New(node.Config{
//		Pods: podInformer, Volumes: volumeInformer, Attachments: attachmentInformer,
//		Rest: rbac.Rules(rbac.NodeRules()),
//	})
//	go nodes.Run(ctx)
//	may := authz.Chain{authz.Superusers(user.Masters), nodes, roles}
//
// A node is a user system:node:NAME in the group system:nodes. It may read a secret, a config map,
// a claim, a volume or a resource claim while a pod that is bound to it refers to that object,
// directly or through a claim and its volume. It may request tokens of the service accounts of its
// pods. It may read and write the lease, the Node and the CSINode with its name. Rest decides on
// all other requests.
//
// This is no protection if another authorizer of the chain grants more to the group system:nodes,
// as a binding of the role system:node to it does.
//
// The references of pods are kept in an index from each object to its nodes, so that a decision is
// one lookup. The index follows caches, and may be behind a kubelet that already knows of a pod:
// see Config.Patience. The objects need not exist. A mirror pod grants nothing, because the node
// itself creates it.
//
// The answers are Allow and NoOpinion, with Kubernetes' reasons. A node may list and watch pods
// only with the field selector spec.nodeName=NAME, and resource slices only with that of its own
// name. Admission, where the object is known, further limits what a node may write.
package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Config configures an Authorizer. Pods is required.
type Config struct {
	Pods localcache.Subscriber[*corev1.Pod]
	// Volumes is the cache of persistent volumes. If nil, nodes may not read them.
	Volumes localcache.Subscriber[*corev1.PersistentVolume]
	// Attachments is the cache of volume attachments. If nil, nodes may not read them.
	Attachments localcache.Subscriber[*storagev1.VolumeAttachment]
	// Slices is the cache of resource slices. If nil, nodes may not read one by name.
	Slices localcache.Subscriber[*resourcev1.ResourceSlice]
	// Rest decides on requests that do not depend on a node's pods. If nil, the answer is
	// NoOpinion.
	Rest authz.Authorizer
	// Patience is how long a request for an object that no pod of the node refers to waits for such a pod
	// before it is refused; zero means not at all. Without it, the first request of a kubelet for a new
	// pod may be refused because the cache of pods is behind the kubelet's.
	Patience time.Duration
}

// Authorizer is an [authz.Authorizer] and an [authz.Lister].
type Authorizer struct {
	config Config
	graph  *graph
}

// New returns an authorizer. It knows no pods before Run.
func New(c Config) (*Authorizer, error) {
	if c.Pods == nil {
		return nil, errors.New("node: Pods must be set")
	}
	if c.Patience < 0 {
		return nil, errors.New("node: Patience is negative")
	}
	return &Authorizer{config: c, graph: newGraph()}, nil
}

// Run keeps the index current until ctx is done. It may be called once.
func (a *Authorizer) Run(ctx context.Context) error {
	defer a.config.Pods.Subscribe(a.graph.pod).Stop()
	if a.config.Volumes != nil {
		defer a.config.Volumes.Subscribe(a.graph.volume).Stop()
	}
	if a.config.Attachments != nil {
		defer a.config.Attachments.Subscribe(a.graph.attachment).Stop()
	}
	if a.config.Slices != nil {
		defer a.config.Slices.Subscribe(a.graph.slice).Stop()
	}
	<-ctx.Done()
	return nil
}

// Authorize decides on the requests of nodes.
func (a *Authorizer) Authorize(ctx context.Context, at authz.Attributes) (authz.Decision, string, error) {
	if at.User == nil || !strings.HasPrefix(at.User.Name, user.NodePrefix) || !at.User.In(user.Nodes) {
		return authz.NoOpinion, "", nil
	}
	name := at.User.Name[len(user.NodePrefix):]
	if name == "" {
		return authz.NoOpinion, fmt.Sprintf("unknown node for user %q", at.User.Name), nil
	}
	switch refusal := limited(&at, name); refusal {
	case "":
		return authz.Allow, "", nil
	case related:
		return a.related(ctx, &at, name)
	case unlimited:
		return a.rest(ctx, at)
	case unsaid:
		return authz.NoOpinion, "", nil
	default:
		return authz.NoOpinion, refusal, nil
	}
}

func (a *Authorizer) rest(ctx context.Context, at authz.Attributes) (authz.Decision, string, error) {
	if a.config.Rest == nil {
		return authz.NoOpinion, "", nil
	}
	return a.config.Rest.Authorize(ctx, at)
}

// related allows requests for an object that the node's pods refer to.
func (a *Authorizer) related(ctx context.Context, at *authz.Attributes, name string) (authz.Decision, string, error) {
	if at.Name == "" {
		return authz.NoOpinion, "No Object name found", nil
	}
	o := object{at.Resource, at.Namespace, at.Name}
	if a.graph.has(o, name) {
		return authz.Allow, "", nil
	}
	if a.config.Patience > 0 {
		ctx, cancel := context.WithTimeout(ctx, a.config.Patience)
		defer cancel()
		if a.graph.await(ctx, o, name) {
			return authz.Allow, "", nil
		}
	}
	return authz.NoOpinion, fmt.Sprintf("no relationship found between node '%s' and this object", name), nil
}

// ErrNoRules means that the permissions of a node depend on its pods.
var ErrNoRules = errors.New("node authorizer does not support user rule resolution")

// RulesFor returns no rules; for a node it also returns [ErrNoRules].
func (a *Authorizer) RulesFor(_ context.Context, u *user.Info, _ string) (authz.Rules, error) {
	if u.In(user.Nodes) && strings.HasPrefix(u.Name, user.NodePrefix) {
		return authz.Rules{Incomplete: true}, ErrNoRules
	}
	return authz.Rules{}, nil
}

// Size returns the number of objects in the index: those that nodes may read, and the claims with
// volumes.
func (a *Authorizer) Size() int { return a.graph.size() }
