package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Request is an HTTP request below a server's URL.
type Request struct {
	// Method is the HTTP method; empty means GET.
	Method string
	// Path begins with a slash and is escaped where necessary.
	Path string
	// Query may be nil.
	Query url.Values
	// Accept is the requested media type; empty means JSON.
	Accept string
	// Body, if not nil, is sent as ContentType; empty means JSON.
	Body        []byte
	ContentType string

	// into, if not nil, receives the answer; Body is then a part of it.
	into *bytes.Buffer
}

// Response is a complete successful answer.
type Response struct {
	// ContentType is the media type without parameters.
	ContentType string
	Body        []byte
}

// Media types of the Kubernetes API.
const (
	JSON     = "application/json"
	Protobuf = "application/vnd.kubernetes.protobuf"
)

// maxError limits how much of a failed answer is read, in bytes.
const maxError = 1 << 20

// Do sends a request and reads the answer. A status of 300 or more is returned as an
// *apierrors.StatusError.
func (c *Client) Do(ctx context.Context, r Request) (Response, error) {
	stream, contentType, err := c.Stream(ctx, r)
	if err != nil {
		return Response{}, err
	}
	defer stream.Close()
	into := r.into
	if into == nil {
		into = new(bytes.Buffer)
	}
	into.Reset()
	if _, err := into.ReadFrom(stream); err != nil {
		return Response{}, fmt.Errorf("read answer to %s %s: %w", r.method(), r.Path, err)
	}
	return Response{ContentType: contentType, Body: into.Bytes()}, nil
}

// Stream sends a request and returns the body of the answer and its media type. The caller reads
// the body as it arrives and closes it.
func (c *Client) Stream(ctx context.Context, r Request) (io.ReadCloser, string, error) {
	request, err := c.newRequest(ctx, r)
	if err != nil {
		return nil, "", err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, "", err
	}
	if response.StatusCode == http.StatusUnauthorized && c.tokens != nil {
		c.tokens.Refused(strings.TrimPrefix(request.Header.Get("Authorization"), "Bearer "))
	}
	if c.warn != nil {
		for _, header := range response.Header["Warning"] {
			for _, text := range warningTexts(header) {
				c.warn(text)
			}
		}
	}
	contentType, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil {
		contentType = ""
	}
	if response.StatusCode < 300 {
		return response.Body, contentType, nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxError))
	if err != nil {
		return nil, "", fmt.Errorf("read answer to %s %s: %w", r.method(), r.Path, err)
	}
	return nil, "", statusError(r, response, contentType, body)
}

func (r Request) method() string {
	if r.Method == "" {
		return http.MethodGet
	}
	return r.Method
}

func (c *Client) newRequest(ctx context.Context, r Request) (*http.Request, error) {
	if !strings.HasPrefix(r.Path, "/") {
		return nil, fmt.Errorf("request path %q does not begin with a slash", r.Path)
	}
	target := strings.TrimSuffix(c.base.String(), "/") + r.Path
	if len(r.Query) > 0 {
		target += "?" + r.Query.Encode()
	}
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	request, err := http.NewRequestWithContext(ctx, r.method(), target, body)
	if err != nil {
		return nil, err
	}
	set := func(header, value, otherwise string) {
		if value == "" {
			value = otherwise
		}
		request.Header.Set(header, value)
	}
	set("Accept", r.Accept, JSON)
	set("User-Agent", c.userAgent, "")
	if r.Body != nil {
		set("Content-Type", r.ContentType, JSON)
	}
	token := c.token
	if c.tokens != nil {
		token = c.tokens.Token()
	}
	if token != "" {
		set("Authorization", "Bearer "+token, "")
	}
	return request, nil
}

// statusError returns the API error of a failed answer: the Status in its body, or one made from
// the HTTP status if a proxy or another kind of server answered.
func statusError(r Request, response *http.Response, contentType string, body []byte) error {
	var status metav1.Status
	if err := decodeStatus(contentType, body, &status); err == nil {
		if status.Code == 0 {
			status.Code = int32(response.StatusCode)
		}
		return &apierrors.StatusError{ErrStatus: status}
	}
	wait, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	const quoted = 2048 // bytes of an unexpected answer to quote
	text := strings.TrimSpace(string(body[:min(len(body), quoted)]))
	return apierrors.NewGenericServerResponse(response.StatusCode, strings.ToLower(r.method()),
		schema.GroupResource{}, "", text, wait, true)
}

func decodeStatus(contentType string, body []byte, into *metav1.Status) error {
	switch contentType {
	case Protobuf:
		kind, raw, err := openEnvelope(body)
		if err != nil {
			return err
		}
		if kind.Kind != "Status" {
			return fmt.Errorf("found a %s", kind.Kind)
		}
		return into.Unmarshal(raw)
	case JSON:
		if err := json.Unmarshal(body, into); err != nil {
			return err
		}
		if into.Kind != "Status" {
			return fmt.Errorf("found a %q", into.Kind)
		}
		return nil
	}
	return fmt.Errorf("content type %q", contentType)
}
