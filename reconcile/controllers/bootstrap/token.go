package bootstrap

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// namePrefix is the prefix of the names of the secrets of tokens.
const namePrefix = "bootstrap-token-"

// isToken reports whether a secret is that of a bootstrap token.
func isToken(secret *corev1.Secret) bool {
	return secret.Namespace == metav1.NamespaceSystem && secret.Type == corev1.SecretTypeBootstrapToken
}

// expiration returns when a token expires, and false if it never does. A time that cannot be parsed has
// passed.
func expiration(secret *corev1.Secret) (time.Time, bool) {
	text := string(secret.Data["expiration"])
	if text == "" {
		return time.Time{}, false
	}
	end, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, true
	}
	return end, true
}

// expired reports whether a token must not be used any more.
func expired(secret *corev1.Secret, now time.Time) bool {
	end, ends := expiration(secret)
	return ends && !now.Before(end)
}

// signing returns the ID and the secret part of a token that is meant for signing and is valid.
func signing(secret *corev1.Secret, now time.Time) (id, key string, ok bool) {
	id, key = string(secret.Data["token-id"]), string(secret.Data["token-secret"])
	name, named := strings.CutPrefix(secret.Name, namePrefix)
	ok = isToken(secret) && secret.DeletionTimestamp == nil && named && id != "" && name == id && key != "" &&
		string(secret.Data["usage-bootstrap-signing"]) == "true" && !expired(secret, now)
	return id, key, ok
}
