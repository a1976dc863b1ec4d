package metrics

import (
	"net/http"
	"time"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/prometheus/client_golang/prometheus"
)

const hour = 60 * 60

// lifetimes are the buckets of kube-apiserver, in seconds.
var lifetimes = []float64{0, hour / 2, hour, 2 * hour, 6 * hour, 12 * hour, 24 * hour, 48 * hour, 96 * hour,
	7 * 24 * hour, 30 * 24 * hour, 90 * 24 * hour, 180 * 24 * hour, 360 * 24 * hour}

func newCertificates() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "apiserver_client_certificate_expiration_seconds",
		Help:    "Distribution of the remaining lifetime on the certificate used to authenticate a request.",
		Buckets: lifetimes})
}

// Authenticator measures how long the client certificates that next accepts remain valid. Those that it
// refuses are not counted, so that a client without an account cannot raise an alert. A front proxy's are not either.
func (m *Metrics) Authenticator(next authn.Authenticator) authn.Authenticator {
	return authn.Func(func(r *http.Request) (*user.Info, bool, error) {
		u, ok, err := next.Authenticate(r)
		if ok && err == nil && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
			if leaf := r.TLS.PeerCertificates[0]; leaf.Subject.CommonName == u.Name {
				m.certificates.Observe(time.Until(leaf.NotAfter).Seconds())
			}
		}
		return u, ok, err
	})
}
