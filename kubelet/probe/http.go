package probe

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// maxHeaders bounds the headers of an answer, in bytes.
const maxHeaders = 64 << 10

// maxRedirects bounds the redirects that an HTTP probe follows.
const maxRedirects = 10

// httpGet succeeds if the server answers with a status from 200 to 399. It follows redirects to the
// same host; a redirect to another host is a Warning.
func (c *Client) httpGet(ctx context.Context, t Target, action *corev1.HTTPGetAction) (Result, string, error) {
	request, err := c.request(ctx, t, action)
	if err != nil {
		return Failure, "", err
	}
	response, err := do(request)
	if err != nil {
		return Failure, err.Error(), nil
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxOutput))
	if err = cmp.Or(ctx.Err(), err); err != nil {
		return Failure, err.Error(), nil
	}
	switch code := response.StatusCode; {
	case code >= 200 && code < 300:
		return Success, string(body), nil
	case code >= 300 && code < 400:
		return Warning, "Probe terminated redirects, Response body: " + string(body), nil
	default:
		return Failure, fmt.Sprintf("HTTP probe failed with statuscode: %d", code), nil
	}
}

// Get makes the request of an action and returns the response, whose body the caller must close.
func (c *Client) Get(ctx context.Context, t Target, action *corev1.HTTPGetAction) (*http.Response, error) {
	request, err := c.request(ctx, t, action)
	if err != nil {
		return nil, err
	}
	return do(request)
}

// do makes a request over a connection of its own.
func do(request *http.Request) (*http.Response, error) {
	transport := &http.Transport{
		DialContext:       dial,
		DisableKeepAlives: true,
		// A probe asks whether a server answers, not whether its certificate is good. The address
		// is the pod's own unless the pod's author has set another.
		TLSClientConfig:        &tls.Config{InsecureSkipVerify: true},
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaders,
	}
	client := &http.Client{Transport: transport, CheckRedirect: sameHost(request.URL.Hostname())}
	response, err := client.Do(request)
	// A server can see that the connection is about to close, and answer, before the transport has
	// closed it. An answer after the timeout is none.
	if late := request.Context().Err(); err == nil && late != nil {
		_ = response.Body.Close()
		return nil, late
	}
	return response, err
}

// sameHost follows redirects to host only.
func sameHost(host string) func(*http.Request, []*http.Request) error {
	return func(next *http.Request, via []*http.Request) error {
		if next.URL.Hostname() != host {
			return http.ErrUseLastResponse
		}
		if len(via) >= maxRedirects {
			return errors.New("stopped after 10 redirects")
		}
		return nil
	}
}

// request returns the request of an HTTP probe.
func (c *Client) request(ctx context.Context, t Target, action *corev1.HTTPGetAction) (*http.Request, error) {
	port, err := portOf(action.Port, t.Container)
	if err != nil {
		return nil, err
	}
	host := action.Host
	if host == "" {
		host = t.PodIP
	}
	target, err := url.Parse(action.Path)
	if err != nil {
		target = &url.URL{Path: action.Path}
	}
	target.Scheme = "http"
	if strings.EqualFold(string(action.Scheme), string(corev1.URISchemeHTTPS)) {
		target.Scheme = "https"
	}
	target.Host = net.JoinHostPort(host, strconv.Itoa(port))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", c.userAgent())
	request.Header.Set("Accept", "*/*")
	given := http.Header{}
	for _, h := range action.HTTPHeaders {
		given.Add(h.Name, h.Value)
	}
	for name, values := range given {
		request.Header[name] = values
	}
	if host := given.Get("Host"); host != "" {
		request.Host = host
	}
	// An empty header of these two names means none.
	for _, name := range []string{"User-Agent", "Accept"} {
		if values, ok := given[name]; ok && values[0] == "" {
			request.Header[name] = nil
		}
	}
	return request, nil
}
