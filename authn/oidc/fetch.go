package oidc

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// maxDocument bounds the size of an issuer's document, in bytes. Azure's discovery document has
	// 2 KiB, its key set 20 KiB.
	maxDocument = 1 << 20
	// fetchTimeout bounds the fetch of one document, including the connection.
	fetchTimeout = 10 * time.Second
	// The issuer determines the maximum age of its keys, within these bounds.
	minAge, usualAge, maxAge = time.Minute, 10 * time.Minute, time.Hour
)

// newClient returns a client for the documents of i. It does not use a proxy from the environment;
// set Transport for that.
func newClient(i *Issuer) *http.Client {
	transport := i.Transport
	if transport == nil {
		transport = &http.Transport{
			TLSClientConfig:     &tls.Config{RootCAs: i.Roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2:   true,
			IdleConnTimeout:     minAge,
			MaxIdleConnsPerHost: 1,
		}
	}
	return &http.Client{Transport: transport, Timeout: fetchTimeout, CheckRedirect: sameHost}
}

// sameHost allows redirects only to the original host, because trust was decided by its name.
func sameHost(r *http.Request, before []*http.Request) error {
	if first := before[0].URL; r.URL.Scheme != first.Scheme || r.URL.Host != first.Host {
		return errors.New("redirected to another host")
	}
	if len(before) > 3 {
		return errors.New("redirected too often")
	}
	return nil
}

// fetch reads the discovery document and the keys of the issuer. It returns the maximum age of the
// keys.
func (p *provider) fetch(ctx context.Context) (*keySet, time.Duration, error) {
	document, _, err := p.get(ctx, p.issuer.DiscoveryURL)
	if err != nil {
		return nil, 0, fmt.Errorf("discovery: %w", err)
	}
	where, err := parseDiscovery(document, p.issuer.URL)
	if err != nil {
		return nil, 0, fmt.Errorf("discovery: %w", err)
	}
	document, header, err := p.get(ctx, where)
	if err != nil {
		return nil, 0, fmt.Errorf("keys: %w", err)
	}
	list, err := parseKeys(document)
	if err != nil {
		return nil, 0, fmt.Errorf("keys: %w", err)
	}
	return &keySet{list: list}, ageOf(header), nil
}

func (p *provider) get(ctx context.Context, where string) ([]byte, http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Accept", "application/json, application/jwk-set+json")
	response, err := p.client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("the issuer answered %s", response.Status)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, maxDocument+1))
	if err != nil {
		return nil, nil, err
	}
	if len(data) > maxDocument {
		return nil, nil, fmt.Errorf("the document has more than %d bytes", maxDocument)
	}
	return data, response.Header, nil
}

// parseDiscovery returns the URL of the keys from a discovery document, which must be for issuer.
func parseDiscovery(document []byte, issuer string) (string, error) {
	var d struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(document, &d); err != nil {
		return "", errors.New("the document is no JSON object of the right form")
	}
	if d.Issuer != issuer {
		return "", fmt.Errorf("the document is of issuer %.200q", d.Issuer)
	}
	u, err := url.Parse(d.Keys)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return "", errors.New("jwks_uri is not an https URL")
	}
	return d.Keys, nil
}

// ageOf returns max-age (RFC 9111, section 5.2.2.1).
func ageOf(h http.Header) time.Duration {
	for _, line := range h.Values("Cache-Control") {
		for directive := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
			if !strings.EqualFold(name, "max-age") {
				continue
			}
			if seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31); err == nil {
				return max(minAge, min(time.Duration(seconds)*time.Second, maxAge))
			}
		}
	}
	return usualAge
}
