package join_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/controllerset"
	"github.com/planekit/planekit/plane/join"
	"github.com/planekit/planekit/plane/planetest"
)

// TestRotation lets certificates of one hour live for half a day, without the token.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, planetest.WithoutNetwork())
		config := newConfig(t, p, invite(t, p))
		config.Duration = time.Hour
		j := newJoiner(t, config)
		if err := j.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		register(t, p.Client(), "10.1.2.3")
		stop := run(t, j)
		synctest.Wait()
		seen := map[string]bool{}
		for range 12 * 12 {
			time.Sleep(5 * time.Minute)
			client, _ := j.ClientCertificate(nil)
			serving, err := j.ServingCertificate(nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range []*tls.Certificate{client, serving} {
				if left := time.Until(c.Leaf.NotAfter); left < 5*time.Minute {
					t.Fatalf("%s has %v left", c.Leaf.Subject, left)
				}
				seen[c.Leaf.SerialNumber.String()] = true
			}
		}
		// 65 minutes are renewed after 70 to 90 %: 12 to 17 times in twelve hours, and the first.
		if len(seen) < 2*12 || len(seen) > 2*18 {
			t.Errorf("%d certificates in half a day", len(seen))
		}
		stop()
		stored, err := os.ReadFile(filepath.Join(config.Dir, "pki", "kubelet-client-current.pem"))
		if pair, pairErr := tls.X509KeyPair(stored, stored); err != nil || pairErr != nil || !seen[pair.Leaf.SerialNumber.String()] {
			t.Errorf("the file: %v, %v", err, pairErr)
		}
	})
}

// TestRunRepairs: a file that was torn is written again, and an address that the node gets later leads to
// another serving certificate.
func TestRunRepairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, planetest.WithoutNetwork())
		config := newConfig(t, p, invite(t, p))
		var addresses []netip.Addr
		config.Addresses = func() ([]netip.Addr, []string) { return addresses, nil }
		j := newJoiner(t, config)
		if err := j.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop := run(t, j)
		synctest.Wait()
		path := filepath.Join(config.Dir, "pki", "kubelet-client-current.pem")
		whole, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, whole[:100], 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if again, err := os.ReadFile(path); err != nil || string(again) != string(whole) {
			t.Errorf("the torn file has %d bytes, %v", len(again), err)
		}
		if _, err := j.ServingCertificate(nil); !errors.Is(err, join.ErrNotIssued) {
			t.Errorf("without an address: %v", err)
		}
		stop()
		addresses = append(addresses, netip.MustParseAddr("10.1.2.3"))
		stop = run(t, j)
		time.Sleep(time.Minute)
		if _, err := j.ServingCertificate(nil); !errors.Is(err, join.ErrNotIssued) {
			t.Errorf("for an address that the Node lacks: %v", err)
		}
		register(t, p.Client(), "10.1.2.3")
		time.Sleep(time.Minute)
		if _, err := j.ServingCertificate(nil); err != nil {
			t.Error(err)
		}
		stop()
		addresses = append(addresses, netip.MustParseAddr("fd00::1"))
		register(t, p.Client(), "10.1.2.3", "fd00::1")
		run(t, j)
		time.Sleep(time.Minute)
		if serving, err := j.ServingCertificate(nil); err != nil || len(serving.Leaf.IPAddresses) != 2 {
			t.Errorf("ServingCertificate(nil): %v, want a certificate for the 2 addresses %v", err, addresses)
		}
	})
}

// TestServerAway: certificates are renewed once the server is back. A client certificate that has expired
// meanwhile needs the token again.
func TestServerAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, planetest.WithoutNetwork())
		invitation := invite(t, p, func(c *join.InviteConfig) { c.Lifetime = 3 * time.Hour })
		config := newConfig(t, p, invitation)
		config.Duration, config.Addresses = time.Hour, nil
		var gone bool
		dial := config.Dial
		config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if gone {
				return away(ctx, network, address)
			}
			return dial(ctx, network, address)
		}
		j := newJoiner(t, config)
		if err := j.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			pause time.Duration
			good  bool
		}{{55 * time.Minute, true}, {75 * time.Minute, true}, {3 * time.Hour, false}} {
			gone = true
			stop := run(t, j)
			time.Sleep(c.pause)
			stop()
			gone = false
			stop = run(t, j)
			time.Sleep(10 * time.Minute)
			stop()
			certificate, _ := j.ClientCertificate(nil)
			if good := time.Now().Before(certificate.Leaf.NotAfter); good != c.good {
				t.Errorf("after %v: the certificate is good: %v", c.pause, good)
			}
		}
		// A new token helps.
		config.Token = invite(t, p).Token
		renewed := newJoiner(t, config)
		if err := renewed.Join(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestWithoutServingApprover: the controller is one of the set, which can be left out.
func TestWithoutServingApprover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, planetest.WithoutNetwork(), planetest.With(func(c *plane.Config) {
			c.Controllers.Choose = []string{"*", "-" + controllerset.KubeletServingApprover}
		}))
		j := newJoiner(t, newConfig(t, p, invite(t, p)))
		if err := j.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		register(t, p.Client(), "10.1.2.3")
		run(t, j)
		time.Sleep(time.Minute)
		if _, err := j.ServingCertificate(nil); !errors.Is(err, join.ErrNotIssued) {
			t.Error(err)
		}
	})
}
