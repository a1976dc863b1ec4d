package tokenrequest

import (
	"context"
	"errors"
	"strings"

	"github.com/planekit/planekit/authn/user"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// restrict holds a kubelet to requests that name the very pod they are for.
func restrict(ctx context.Context, account string, ref *authenticationv1.BoundObjectReference) error {
	if _, isNode := nodeName(ctx); !isNode {
		return nil
	}
	switch {
	case ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "":
		return forbidden(account, "node requested token not bound to a pod")
	case ref.UID == "":
		return forbidden(account, "node requested token with a pod binding without a uid")
	}
	return nil
}

// onNode holds a kubelet to the pods of its own node.
func onNode(ctx context.Context, account string, pod *corev1.Pod) error {
	if name, isNode := nodeName(ctx); isNode && (name == "" || pod.Spec.NodeName != name) {
		return forbidden(account, "node requested token bound to a pod scheduled on a different node")
	}
	return nil
}

// nodeName reports whether a kubelet asks, and for which node it speaks: for none
// where it is a node in its groups alone.
func nodeName(ctx context.Context) (string, bool) {
	u, _ := user.FromContext(ctx)
	if !u.In(user.Nodes) {
		return "", false
	}
	name, ok := strings.CutPrefix(u.Name, user.NodePrefix)
	if !ok {
		return "", true
	}
	return name, true
}

func forbidden(account, why string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, account, errors.New(why))
}
