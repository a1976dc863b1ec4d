package kubelet

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodStatus reads and updates pods in the API. Its errors are those of
// k8s.io/apimachinery/pkg/api/errors.
type PodStatus interface {
	// Get reads the pod from the API server.
	Get(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// UpdateStatus writes the status. It fails with a conflict unless the pod's resourceVersion is
	// the newest.
	UpdateStatus(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error)
	Delete(ctx context.Context, namespace, name string, options metav1.DeleteOptions) error
}

// Nodes reads and writes Nodes in the API. The namespace is empty.
type Nodes interface {
	Get(ctx context.Context, namespace, name string) (*corev1.Node, error)
	Create(ctx context.Context, node *corev1.Node) (*corev1.Node, error)
	Update(ctx context.Context, node *corev1.Node) (*corev1.Node, error)
	UpdateStatus(ctx context.Context, node *corev1.Node) (*corev1.Node, error)
}

// Leases reads and writes Leases in the API, in the namespace kube-node-lease.
type Leases interface {
	Get(ctx context.Context, namespace, name string) (*coordinationv1.Lease, error)
	Create(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error)
	Update(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error)
}

// Events writes Event objects about pods and this node.
type Events interface {
	Create(ctx context.Context, event *corev1.Event) (*corev1.Event, error)
	Update(ctx context.Context, event *corev1.Event) (*corev1.Event, error)
}

// Tokens issues service account tokens through the token subresource.
type Tokens func(ctx context.Context, namespace, serviceAccount string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)
