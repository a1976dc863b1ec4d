package tokens

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTokensAreRenewedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issued, failure := 0, error(nil)
		c := New(func(_ context.Context, namespace, account string, r *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
			if failure != nil {
				return nil, failure
			}
			issued++
			life := time.Duration(*r.Spec.ExpirationSeconds) * time.Second
			return &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{
				Token:               fmt.Sprint(namespace, "/", account, " ", r.Spec.BoundObjectRef.Kind, " ", r.Spec.BoundObjectRef.UID, " ", issued),
				ExpirationTimestamp: metav1.NewTime(time.Now().Add(life)),
			}}, nil
		})
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}}
		want := func(when, want string) {
			t.Helper()
			token, err := c.Token(t.Context(), pod, "v", &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(1000))})
			if token != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, failure) {
				t.Errorf("%s: %q %v, want %q", when, token, err, want)
			}
		}
		want("at first", "shop/default Pod u 1")
		time.Sleep(799 * time.Second)
		want("before four fifths of its time", "shop/default Pod u 1")
		time.Sleep(time.Second)
		want("after them", "shop/default Pod u 2")
		failure = errors.New("no connection")
		time.Sleep(900 * time.Second)
		want("where nobody issues another", "shop/default Pod u 2")
		time.Sleep(101 * time.Second)
		want("when it has ended", "")
		failure = nil
		want("when there is another", "shop/default Pod u 3")
		c.Forget("u")
		want("forgotten", "shop/default Pod u 4")
	})
}

// TestClockJumps: a token is renewed when the clock says that it ends soon, however long it was kept, and when the
// clock says that it was issued in the future, where it would be refused.
func TestClockJumps(t *testing.T) {
	for jump, want := range map[time.Duration]int{0: 1, 50 * time.Minute: 2, time.Hour: 2, 2 * time.Hour: 2, -time.Minute: 2, -time.Hour: 2} {
		clock, issued := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 0
		c := New(func(context.Context, string, string, *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
			issued++
			return &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{
				Token: fmt.Sprint(issued), ExpirationTimestamp: metav1.NewTime(clock.Add(time.Hour)),
			}}, nil
		})
		c.now = func() time.Time { return clock }
		for n := range 3 {
			if n == 1 {
				clock = clock.Add(jump)
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}}
			token, err := c.Token(t.Context(), pod, "v", &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(3600))})
			if err != nil || token != fmt.Sprint(issued) {
				t.Errorf("Token after the clock has jumped by %v = %q, %v, want %d", jump, token, err, issued)
			}
		}
		if issued != want {
			t.Errorf("%d tokens were issued after the clock has jumped by %v, want %d", issued, jump, want)
		}
	}
	if now := New(nil).now(); now != now.Round(0) {
		t.Errorf("the cache's clock is %v, want none that misses jumps", now)
	}
}
