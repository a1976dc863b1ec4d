package kubeconfig

import (
	"crypto/tls"
	"sync"
	"time"

	"github.com/planekit/planekit/internal/certfile"
	"github.com/planekit/planekit/internal/lastvalid"
)

// checkEvery is the time between two looks at the files of a client certificate while connections
// are open. It is the interval at which the Kubernetes kubelet looks whether its certificate has changed.
const checkEvery = 5 * time.Second

// followed is a value in files that change.
type followed[T any] struct {
	value  *lastvalid.Value[T]
	failed func(error) // may be nil

	mu      sync.Mutex
	checked time.Time // guarded by mu
	said    string    // the last error, or empty; guarded by mu
}

// certificateFiles are the files of a client certificate and its key.
type certificateFiles struct{ followed[*tls.Certificate] }

func openCertificateFiles(certificate, key string, failed func(error)) (*certificateFiles, error) {
	pair, err := certfile.Pair(certificate, key)
	if err != nil {
		return nil, err
	}
	return &certificateFiles{followed[*tls.Certificate]{value: pair, failed: failed, checked: time.Now()}}, nil
}

// current returns the certificate for requests.
func (f *certificateFiles) current() *tls.Certificate {
	f.refresh(checkEvery)
	return f.value.Current()
}

// present returns the certificate for a new connection. It is a tls.Config.GetClientCertificate.
func (f *certificateFiles) present(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	f.refresh(0)
	return f.value.Current(), nil
}

// refresh reads the files unless that was less than a time ago. It reports an error once.
func (f *followed[T]) refresh(after time.Duration) {
	f.mu.Lock()
	if time.Since(f.checked) < after {
		f.mu.Unlock()
		return
	}
	f.checked = time.Now()
	_, err := f.value.Refresh()
	text := ""
	if err != nil {
		text = err.Error()
	}
	again := text == f.said
	f.said = text
	f.mu.Unlock()
	if err != nil && !again && f.failed != nil {
		f.failed(err)
	}
}
