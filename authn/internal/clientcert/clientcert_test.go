package clientcert

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/authn/internal/certtest"
)

var errRead = errors.New("no such user")

// reader reads common names, and counts how often it did.
type reader struct {
	mu    sync.Mutex
	calls int
}

func (r *reader) read(c *x509.Certificate) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	if c.Subject.CommonName == "" {
		return "", errRead
	}
	return c.Subject.CommonName, nil
}

// TestRemembered: a chain is verified once for the same roots.
func TestRemembered(t *testing.T) {
	ca, other := certtest.New(), certtest.New()
	roots, r := ca.Pool, &reader{}
	v := New(func() *x509.CertPool { return roots }, r.read)
	jane, nobody := []*x509.Certificate{ca.Client("jane")}, []*x509.Certificate{ca.Client("")}
	for step, want := range []struct {
		roots *x509.CertPool
		good  bool
		calls int
	}{
		{ca.Pool, true, 1}, {ca.Pool, true, 1},
		{other.Pool, false, 1}, {other.Pool, false, 1}, {nil, false, 1},
		{ca.Pool, true, 2}, {ca.Pool, true, 2},
	} {
		roots = want.roots
		if name, err := v.Verify(jane); (err == nil) != want.good || (name == "jane") != want.good || r.calls != want.calls {
			t.Errorf("step %d: %q, %v, read %d times", step, name, err, r.calls)
		}
	}
	for range 2 {
		if _, err := v.Verify(nobody); !errors.Is(err, errRead) || r.calls != 3 {
			t.Errorf("a certificate that cannot be read: %v, read %d times", err, r.calls)
		}
	}
	if allocs := testing.AllocsPerRun(100, func() { v.Verify(jane) }); allocs != 0 {
		t.Errorf("%v allocations for a chain which is remembered", allocs)
	}
}

// TestChain: what was verified with an intermediate authority says nothing of the
// same certificate without it, or with another.
func TestChain(t *testing.T) {
	ca := certtest.New()
	middle, stranger := ca.Under(), certtest.New()
	v := New(func() *x509.CertPool { return ca.Pool }, (&reader{}).read)
	jane := middle.Client("jane")
	for range 2 {
		if _, err := v.Verify([]*x509.Certificate{jane, middle.Certificate}); err != nil {
			t.Error(err)
		}
		for _, chain := range [][]*x509.Certificate{{jane}, {jane, stranger.Certificate}, {jane, ca.Certificate}} {
			if _, err := v.Verify(chain); err == nil {
				t.Error("verified without the authority in the middle")
			}
		}
	}
}

// TestTime: a chain holds while each of its certificates does, whichever ends
// first.
func TestTime(t *testing.T) {
	early := certtest.Lasting(10 * time.Minute)
	for name, test := range map[string][3]func(*x509.Certificate){
		"root": {early, unchanged, unchanged}, "middle": {unchanged, early, unchanged}, "leaf": {unchanged, unchanged, early},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &reader{}
				ca := certtest.New(test[0])
				middle := ca.Under(test[1])
				chain := []*x509.Certificate{middle.Issue(subject("jane"), test[2]).Leaf, middle.Certificate}
				v := New(func() *x509.CertPool { return ca.Pool }, r.read)
				for minute := range 15 {
					_, err := v.Verify(chain)
					var invalid x509.CertificateInvalidError
					expired := errors.As(err, &invalid) && invalid.Reason == x509.Expired
					if minute <= 10 && err != nil || minute > 10 && !expired && !errors.As(err, new(x509.UnknownAuthorityError)) {
						t.Errorf("after %d minutes: %v", minute, err)
					}
					time.Sleep(time.Minute)
				}
				if r.calls != 1 || len(v.verified) != 0 {
					t.Errorf("verified %d times, remembered %d", r.calls, len(v.verified))
				}
			})
		})
	}
}

// TestClockGoesBack: what has been verified does not hold before it began.
func TestClockGoesBack(t *testing.T) {
	chain, roots, from := []*x509.Certificate{{}}, x509.NewCertPool(), time.Unix(100, 0)
	v := &verdict[string]{chain: [][]byte{nil}, roots: roots, from: from, until: from.Add(time.Minute)}
	for second, want := range map[time.Duration]bool{-1: false, 0: true, 60: true, 61: false} {
		if got := v.holds(chain, roots, from.Add(second*time.Second)); got != want {
			t.Errorf("after %d s: %v", second, got)
		}
	}
}

// TestLongestPath: with two ways to the roots, that which holds longer counts.
func TestLongestPath(t *testing.T) {
	at := func(first, last int) *x509.Certificate {
		return &x509.Certificate{NotBefore: time.Unix(int64(first), 0), NotAfter: time.Unix(int64(last), 0)}
	}
	leaf := at(10, 100)
	for name, test := range map[string]struct {
		paths       [][]*x509.Certificate
		from, until int64
	}{
		"one":    {[][]*x509.Certificate{{leaf, at(20, 50)}}, 20, 50},
		"longer": {[][]*x509.Certificate{{leaf, at(20, 50)}, {leaf, at(5, 80), at(0, 90)}, {leaf, at(0, 60)}}, 10, 80},
		"itself": {[][]*x509.Certificate{{leaf}}, 10, 100},
	} {
		if from, until := span(test.paths); from.Unix() != test.from || until.Unix() != test.until {
			t.Errorf("%s: %d to %d, want %d to %d", name, from.Unix(), until.Unix(), test.from, test.until)
		}
	}
}

// TestBounded: there is an end to what is remembered, and what counts for
// nothing goes first.
func TestBounded(t *testing.T) {
	ca := certtest.New()
	chain := []*x509.Certificate{ca.Client("jane")}
	v := New(func() *x509.CertPool { return ca.Pool }, (&reader{}).read)
	now := time.Now()
	for i := range maxRemembered + 100 {
		v.remember(&verdict[string]{chain: [][]byte{fmt.Append(nil, i)}, roots: ca.Pool, until: now.Add(time.Hour)}, now)
	}
	if _, err := v.Verify(chain); err != nil || len(v.verified) != maxRemembered || v.verified[string(chain[0].Raw)] == nil {
		t.Errorf("%v, %d remembered", err, len(v.verified))
	}
	clear(v.verified)
	live := &verdict[string]{chain: [][]byte{chain[0].Raw}, roots: ca.Pool, until: now.Add(time.Hour)}
	v.verified[live.leaf()] = live
	for i := range 7 {
		dead := &verdict[string]{chain: [][]byte{fmt.Append(nil, i)}, roots: ca.Pool, until: now.Add(-time.Hour)}
		if i%2 == 0 {
			dead.roots, dead.until = x509.NewCertPool(), live.until
		}
		v.verified[dead.leaf()] = dead
	}
	for range 7 {
		v.evict(ca.Pool, now)
	}
	if len(v.verified) != 1 || v.verified[live.leaf()] != live {
		t.Errorf("%d remembered", len(v.verified))
	}
}

// TestTogether is for the race detector: many ask while the roots change.
func TestTogether(t *testing.T) {
	ca, other := certtest.New(), certtest.New()
	var mu sync.Mutex
	roots := ca.Pool
	v := New(func() *x509.CertPool { mu.Lock(); defer mu.Unlock(); return roots }, (&reader{}).read)
	var all sync.WaitGroup
	for i := range 4 {
		chain := []*x509.Certificate{ca.Client(fmt.Sprint("user-", i))}
		all.Go(func() {
			for range 50 {
				if name, err := v.Verify(chain); err == nil && name != fmt.Sprint("user-", i) {
					t.Errorf("user-%d is %s", i, name)
				}
				mu.Lock()
				if roots == ca.Pool {
					roots = other.Pool
				} else {
					roots = ca.Pool
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
}

func unchanged(*x509.Certificate) {}

func subject(name string) pkix.Name { return pkix.Name{CommonName: name} }

// TestConnectionsShareAVerdict has a client connect repeatedly with the same certificate, decoded
// for each connection as in crypto/tls. It must be verified once and cached once.
func TestConnectionsShareAVerdict(t *testing.T) {
	ca, r := certtest.New(), &reader{}
	v := New(func() *x509.CertPool { return ca.Pool }, r.read)
	jane := ca.Client("jane")
	for range 1000 {
		again, err := x509.ParseCertificate(jane.Raw)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := v.Verify([]*x509.Certificate{again}); err != nil || got != "jane" {
			t.Fatalf("%q, error %v", got, err)
		}
	}
	if r.calls != 1 || len(v.verified) != 1 {
		t.Errorf("verified %d times and remembered as %d, want 1 and 1", r.calls, len(v.verified))
	}
}

// slowChain returns a chain that no authority has signed: the leaf names its issuer, and as many
// certificates as fit have that name and a key with which verifying takes as long as it can.
func slowChain(t testing.TB, length int) []*x509.Certificate {
	t.Helper()
	leaf := certtest.New().Issue(certtest.Named("jane")).Leaf
	leaf.SignatureAlgorithm, leaf.Signature = x509.SHA256WithRSA, append([]byte{0}, bytes.Repeat([]byte{0xa5}, 1023)...)
	chain := []*x509.Certificate{leaf}
	for i := range length - 1 {
		modulus := new(big.Int).Lsh(big.NewInt(1), 8192)
		chain = append(chain, &x509.Certificate{
			Raw: fmt.Appendf(nil, "certificate %d", i), RawSubject: leaf.RawIssuer, RawSubjectPublicKeyInfo: fmt.Append(nil, i),
			PublicKeyAlgorithm: x509.RSA, PublicKey: &rsa.PublicKey{N: modulus.Sub(modulus, big.NewInt(int64(2*i+1))), E: 1<<31 - 1},
			Version: 3, BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign,
			NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter,
		})
	}
	return chain
}

// TestSlowChains: requests with a chain that is slow to refuse do not verify it each time. A chain that is
// longer is not verified at all.
func TestSlowChains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := certtest.New()
		roots := ca.Pool
		v := New(func() *x509.CertPool { return roots }, (&reader{}).read)
		if _, err := v.Verify(slowChain(t, 100)); err == nil || err.Error() != "the client shows 100 certificates, of at most 8" {
			t.Errorf("Verify of 100 certificates = %v", err)
		}
		chain := slowChain(t, 8)
		_, first := v.Verify(chain)
		// What would verify now shows that the answer is remembered.
		good := certtest.New()
		jane := []*x509.Certificate{good.Client("jane")}
		_, unknown := v.Verify(jane)
		if first == nil || unknown == nil {
			t.Fatalf("Verify = %v, %v, want refusals", first, unknown)
		}
		if allocs := testing.AllocsPerRun(10, func() { v.Verify(chain) }); allocs > 10 {
			t.Errorf("%v allocations for a chain that was refused: it is verified again", allocs)
		}
		if _, err := v.Verify(chain); err == nil || err.Error() != first.Error() {
			t.Errorf("Verify again = %v, want %v", err, first)
		}
		// Another pool ends a refusal at once.
		roots = good.Pool
		if name, err := v.Verify(jane); err != nil || name != "jane" {
			t.Errorf("Verify with the right authority = %q, %v", name, err)
		}
	})
}

// TestRefusalEnds: a certificate that is not valid yet is good as soon as its time has come.
func TestRefusalEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := certtest.New()
		v := New(func() *x509.CertPool { return ca.Pool }, (&reader{}).read)
		chain := []*x509.Certificate{ca.Issue(certtest.Named("jane"), func(c *x509.Certificate) { c.NotBefore = time.Now().Add(5 * time.Second) }).Leaf}
		for _, good := range []bool{false, true} {
			if _, err := v.Verify(chain); (err == nil) != good {
				t.Errorf("Verify = %v, want success: %v", err, good)
			}
			time.Sleep(11 * time.Second)
		}
	})
}

// TestRefusalsAreBounded: unknown certificates do not fill the memory.
func TestRefusalsAreBounded(t *testing.T) {
	v := New(func() *x509.CertPool { return certtest.New().Pool }, (&reader{}).read)
	roots := v.roots()
	v.roots = func() *x509.CertPool { return roots }
	for i := range maxRefused {
		v.refused[[32]byte{byte(i), byte(i >> 8)}] = refusal{}
	}
	if _, err := v.Verify([]*x509.Certificate{certtest.New().Client("jane")}); err == nil || len(v.refused) != 1 {
		t.Errorf("%d refusals after %v, want 1", len(v.refused), err)
	}
}

// BenchmarkSlowChain measures a request with such a chain.
func BenchmarkSlowChain(b *testing.B) {
	ca := certtest.New()
	v := New(func() *x509.CertPool { return ca.Pool }, (&reader{}).read)
	chain := slowChain(b, 8)
	b.ReportAllocs()
	for b.Loop() {
		v.Verify(chain)
	}
}
