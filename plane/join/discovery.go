package join

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/planekit/planekit/authn/bootstraptoken"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/pki/clusterinfo"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const (
	// maxClusterInfo bounds what is read from a server that is not verified, in bytes. An object of the
	// API is smaller than 3 MiB.
	maxClusterInfo = 4 << 20
	// requestTimeout bounds a single request.
	requestTimeout = 30 * time.Second
)

// discover returns the authorities of the cluster, as PEM.
func (j *Joiner) discover(ctx context.Context) ([]byte, error) {
	id, secret, ok := bootstraptoken.Parse(j.config.Token)
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: a node without good files needs a token", ErrToken)
	case len(j.config.CAHashes) == 0:
		return nil, fmt.Errorf("%w: no hash of an authority is given", ErrAuthority)
	}
	text, err := patiently(ctx, errLagging, func() (string, error) { return j.signedInfo(ctx, id, secret) })
	if err != nil {
		return nil, err
	}
	authorities, err := authoritiesIn(text)
	if err != nil {
		return nil, fmt.Errorf("%w: cluster-info of %s: %w", ErrAuthority, j.config.Server, err)
	}
	kept := keepAuthorities(authorities, j.config.CAHashes)
	if kept == nil {
		return nil, fmt.Errorf("%w: no authority of %s has the hash %s", ErrAuthority, j.config.Server, strings.Join(j.config.CAHashes, " or "))
	}
	// The server itself must be one that these authorities have certified, and say the same.
	again, err := j.clusterInfo(ctx, kept)
	if err != nil {
		return nil, err
	}
	if again[clusterinfo.Key] != text {
		return nil, fmt.Errorf("%w: %s gave another cluster-info when it was asked again", ErrAuthority, j.config.Server)
	}
	return kept, nil
}

// errLagging marks errors that end when the cluster has taken in a new token.
var errLagging = errors.New("the cluster may not know the token yet")

// lagging marks an error.
type lagging struct{ error }

func (l lagging) Unwrap() []error { return []error{l.error, errLagging} }

// patience is how long Join waits for a cluster to take in a new token: the servers read it, and the
// rights of its user, from caches.
const patience = 5 * time.Second

// patiently calls try again for a short time while it fails with a kind of error.
func patiently[T any](ctx context.Context, kind error, try func() (T, error)) (T, error) {
	for begun := time.Now(); ; sleep(ctx, 10*firstPoll) {
		value, err := try()
		if !errors.Is(err, kind) || time.Since(begun) > patience || ctx.Err() != nil {
			return value, err
		}
	}
}

// signedInfo returns the kubeconfig of cluster-info if the token has signed it.
func (j *Joiner) signedInfo(ctx context.Context, id, secret string) (string, error) {
	data, err := j.clusterInfo(ctx, nil)
	if err != nil {
		return "", err
	}
	text, err := clusterinfo.Verify(data, id, secret)
	switch {
	case errors.Is(err, clusterinfo.ErrUnsigned):
		return "", lagging{fmt.Errorf("%w: the cluster at %s does not know the token %s, or it has expired", ErrToken, j.config.Server, id)}
	case err != nil:
		return "", fmt.Errorf("%w: the secret part of the token %s is not that of the cluster at %s", ErrToken, id, j.config.Server)
	}
	return text, nil
}

// authoritiesIn returns the authorities of the cluster in a kubeconfig, as PEM. A kubeconfig of
// cluster-info has one cluster, whose name may be empty.
func authoritiesIn(text string) ([]byte, error) {
	var parsed struct {
		Clusters []struct {
			Cluster kubeconfig.Cluster `json:"cluster"`
		} `json:"clusters"`
	}
	if err := yaml.Unmarshal([]byte(text), &parsed); err != nil {
		return nil, fmt.Errorf("its kubeconfig: %w", err)
	}
	if len(parsed.Clusters) != 1 || len(parsed.Clusters[0].Cluster.CertificateAuthorityData) == 0 {
		return nil, errors.New("its kubeconfig does not have one cluster with certificate-authority-data")
	}
	return parsed.Clusters[0].Cluster.CertificateAuthorityData, nil
}

// keepAuthorities returns the certificates in a bundle whose public keys have one of the hashes, as PEM, nil if
// there are none.
func keepAuthorities(bundle []byte, hashes []string) []byte {
	var kept []byte
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err == nil && slices.Contains(hashes, clusterinfo.PublicKeyHash(certificate)) {
			kept = append(kept, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
		}
	}
	return kept
}

// clusterInfo reads the ConfigMap cluster-info as an anonymous user. Without authorities, it believes
// any server.
func (j *Joiner) clusterInfo(ctx context.Context, authorities []byte) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if authorities == nil {
		config.InsecureSkipVerify = true // the caller verifies the answer
	} else {
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(authorities)
	}
	transport := j.transport(config)
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		j.config.Server+"/api/v1/namespaces/"+clusterinfo.Namespace+"/configmaps/"+clusterinfo.Name, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, j.explain(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxClusterInfo))
	switch {
	case err != nil:
		return nil, j.explain(err)
	case response.StatusCode == http.StatusNotFound, response.StatusCode == http.StatusForbidden, response.StatusCode == http.StatusUnauthorized:
		return nil, lagging{fmt.Errorf("%w: %s shows no ConfigMap %s/%s to anonymous users: no node was invited there", ErrToken, j.config.Server, clusterinfo.Namespace, clusterinfo.Name)}
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%w: %s answers %s", ErrUnreachable, j.config.Server, response.Status)
	}
	var configMap corev1.ConfigMap
	if err := json.Unmarshal(body, &configMap); err != nil {
		return nil, fmt.Errorf("%w: the answer of %s is not a ConfigMap: %w", ErrUnreachable, j.config.Server, err)
	}
	return configMap.Data, nil
}

func (j *Joiner) transport(config *tls.Config) *http.Transport {
	return &http.Transport{TLSClientConfig: config, DialContext: j.config.Dial, ForceAttemptHTTP2: true, TLSHandshakeTimeout: requestTimeout}
}

// connect returns a client of a verified server that acts by the certificate or the token.
func (j *Joiner) connect(authorities []byte, certificate *tls.Certificate, token string) (*client.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(authorities)
	if certificate != nil {
		config.Certificates = []tls.Certificate{*certificate}
	}
	return client.New(client.Config{Server: j.config.Server, Transport: j.transport(config), BearerToken: token, UserAgent: "planekit-join"})
}

// explain gives an error of a connection its kind and says what it means.
func (j *Joiner) explain(err error) error {
	var invalid x509.CertificateInvalidError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		now := time.Now()
		if now.Before(invalid.Cert.NotBefore) {
			return fmt.Errorf("%w: the clock says %s, and the certificate of %s is valid from %s", ErrClock, stamp(now), j.config.Server, stamp(invalid.Cert.NotBefore))
		}
		return fmt.Errorf("%w: the clock says %s, and the certificate of %s expired at %s", ErrClock, stamp(now), j.config.Server, stamp(invalid.Cert.NotAfter))
	case errors.As(err, &authority), errors.As(err, &host), errors.As(err, &invalid):
		return fmt.Errorf("%w: %s: %w", ErrAuthority, j.config.Server, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrUnreachable, j.config.Server, err)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
