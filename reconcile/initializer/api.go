package initializer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errConflict is returned for an update that conflicts with another write.
var errConflict = errors.New("the object has been modified")

// watch follows all objects, beginning with the existing ones, until the server ends the watch.
func (l *Loop[T]) watch(ctx context.Context) error {
	at := *l.collection
	at.RawQuery = "watch=true&includeUninitialized=true"
	response, err := l.do(ctx, http.MethodGet, &at, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return answered(response)
	}
	events := json.NewDecoder(response.Body)
	for {
		var event struct {
			Type   string
			Object json.RawMessage
		}
		if err := events.Decode(&event); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("watch: %w", err)
		}
		if event.Type != "ADDED" && event.Type != "MODIFIED" {
			if event.Type == "ERROR" {
				return fmt.Errorf("watch: %s", event.Object)
			}
			continue
		}
		obj, err := read(event.Object)
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		if obj.waitsFor(l.config.Name) {
			l.controller.Enqueue(key{obj.meta.Namespace, obj.meta.Name})
		}
	}
}

// get reads an object. It returns nil if there is none.
func (l *Loop[T]) get(ctx context.Context, k key) (*object, error) {
	at := l.at(k)
	at.RawQuery = "includeUninitialized=true"
	response, err := l.do(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, nil
	default:
		return nil, fmt.Errorf("get %s: %w", k, answered(response))
	}
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", k, err)
	}
	return read(data)
}

// put writes an object unless it has changed or was deleted since it was read.
func (l *Loop[T]) put(ctx context.Context, k key, data []byte) error {
	response, err := l.do(ctx, http.MethodPut, l.at(k), data)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK, http.StatusNotFound:
		return nil
	case http.StatusConflict:
		return errConflict
	}
	return fmt.Errorf("update %s: %w", k, answered(response))
}

// at returns the URL of an object.
func (l *Loop[T]) at(k key) *url.URL {
	at := *l.collection
	if k.namespace != "" && !strings.Contains(at.Path, "/namespaces/") {
		at.Path = path.Dir(at.Path) + "/namespaces/" + k.namespace + "/" + path.Base(at.Path)
	}
	at.Path += "/" + k.name
	return &at
}

func (l *Loop[T]) do(ctx context.Context, method string, at *url.URL, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	if l.config.BearerToken != "" {
		r.Header.Set("Authorization", "Bearer "+l.config.BearerToken)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return l.config.Client.Do(r)
}

// answered returns the error of a response with a failure status.
func answered(response *http.Response) error {
	var status metav1.Status
	if json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&status) != nil || status.Message == "" {
		return errors.New(response.Status)
	}
	return fmt.Errorf("%s: %s", response.Status, status.Message)
}
