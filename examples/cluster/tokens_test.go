package main

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/nodes"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTokensOfPods: the token of a pod's volume holds for a year unless flags say
// otherwise, and what it asked for is when it is used for too long.
func TestTokensOfPods(t *testing.T) {
	for _, test := range []struct {
		arguments                     []string
		asked, told, holds, warnAfter int64
	}{
		{nil, 3607, 3607, 365 * 24 * 3600, 3607},
		{nil, 86400, 86400, 86400, 0},
		{[]string{"--service-account-extend-token-expiration=false", "--service-account-max-token-expiration=2h"}, 3607, 3607, 3607, 0},
		{[]string{"--service-account-extend-token-expiration=false", "--service-account-max-token-expiration=2h"}, 86400, 7200, 7200, 0},
	} {
		cluster := start(t, t.TempDir(), append([]string{"--storage", "memory", "--nodes", "0"}, test.arguments...)...)
		api := cluster.client(t)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
		pod.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx:1"}}
		mustCreate(t, typed.Pods(api), pod)
		got, err := nodes.RequestTokens(api)(t.Context(), "default", "default", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: &test.asked, BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "web"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		var claims struct {
			Issued     int64 `json:"iat"`
			Expires    int64 `json:"exp"`
			Kubernetes struct {
				WarnAfter int64 `json:"warnafter"`
			} `json:"kubernetes.io"`
		}
		payload, err := base64.RawURLEncoding.DecodeString(strings.Split(got.Status.Token, ".")[1])
		if err != nil || json.Unmarshal(payload, &claims) != nil {
			t.Fatalf("the payload of the token is %q (%v), want claims in JSON", payload, err)
		}
		warn := max(0, claims.Kubernetes.WarnAfter-claims.Issued)
		if *got.Spec.ExpirationSeconds != test.told || claims.Expires-claims.Issued != test.holds || warn != test.warnAfter {
			t.Errorf("%v: told %d, holds %d, warns after %d, want %+v", test.arguments, *got.Spec.ExpirationSeconds, claims.Expires-claims.Issued, warn, test)
		}
	}
}
