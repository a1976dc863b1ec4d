package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/plane/caches"
)

// Connect sets the fields of k by which a kubelet reads and writes objects of the API server of api,
// whose user may be that of a node. Pods, Services, RuntimeClasses and TrustBundles, which read caches,
// stay as they are; [PodsOf] returns a cache for Pods. It is for a kubelet apart from the control plane:
// [Start] connects its own.
func Connect(k *kubelet.Config, api *client.Client) {
	k.PodStatus, k.Nodes, k.Leases, k.Events = typed.Pods(api), typed.Nodes(api), typed.Leases(api), typed.Events(api)
	k.Secrets, k.ConfigMaps, k.Tokens = typed.Secrets(api).Get, typed.ConfigMaps(api).Get, RequestTokens(api)
	k.Claims, k.PersistentVolumes = typed.PersistentVolumeClaims(api).Get, typed.PersistentVolumes(api).Get
}

// PodsOf returns the cache of the pods that are bound to a node. It reads once it runs.
func PodsOf(node string, api *client.Client, log logr.Logger) (*informer.Informer[*corev1.Pod], error) {
	bound := fields.OneTermEqualSelector("spec.nodeName", node).String()
	return caches.Of(typed.Pods(api).Where("", "", bound), log)
}

// RequestTokens returns a function that requests tokens of service accounts from the API
// server, as the kubelet does for the pods of its node.
func RequestTokens(api *client.Client) kubelet.Tokens {
	return func(ctx context.Context, namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
		body := request.DeepCopy()
		body.APIVersion, body.Kind = authenticationv1.SchemeGroupVersion.String(), "TokenRequest"
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		path := fmt.Sprintf("/api/v1/namespaces/%s/serviceaccounts/%s/token", url.PathEscape(namespace), url.PathEscape(account))
		answer, err := api.Do(ctx, client.Request{Method: http.MethodPost, Path: path, Body: data})
		if err != nil {
			return nil, err
		}
		issued := &authenticationv1.TokenRequest{}
		return issued, json.Unmarshal(answer.Body, issued)
	}
}
