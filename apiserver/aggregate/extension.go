package aggregate

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
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
