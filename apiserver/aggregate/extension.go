package aggregate

import (
	"context"
	"encoding/json"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AuthenticationConfigMap returns the config map kube-system/extension-apiserver-authentication,
// from which extension API servers learn whom to believe: clients with
// certificates of clientCA, and what the proxies called allowedNames, with
// certificates of proxyCA, say of users. Both authorities are PEM.
func AuthenticationConfigMap(clientCA, proxyCA []byte, allowedNames ...string) *corev1.ConfigMap {
	list := func(values ...string) string {
		data, _ := json.Marshal(values) // strings always can be
		return string(data)
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "extension-apiserver-authentication"},
		Data: map[string]string{
			"client-ca-file":                     string(clientCA),
			"requestheader-client-ca-file":       string(proxyCA),
			"requestheader-allowed-names":        list(allowedNames...),
			"requestheader-username-headers":     list(remoteUser),
			"requestheader-uid-headers":          list(remoteUID),
			"requestheader-group-headers":        list(remoteGroup),
			"requestheader-extra-headers-prefix": list(remoteExtra),
		},
	}
}

// ConfigMaps is where config maps are stored; a client.Resource is one.
type ConfigMaps interface {
	Get(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
	Create(context.Context, *corev1.ConfigMap) (*corev1.ConfigMap, error)
	Update(context.Context, *corev1.ConfigMap) (*corev1.ConfigMap, error)
}

// Publish creates a config map, or adds the entries of want to an existing one.
func Publish(ctx context.Context, stored ConfigMaps, want *corev1.ConfigMap) error {
	_, err := stored.Create(ctx, want)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	have, err := stored.Get(ctx, want.Namespace, want.Name)
	if err != nil {
		return err
	}
	merged := have.DeepCopy()
	if merged.Data == nil {
		merged.Data = map[string]string{}
	}
	maps.Copy(merged.Data, want.Data)
	if maps.Equal(have.Data, merged.Data) {
		return nil
	}
	_, err = stored.Update(ctx, merged)
	return err
}
