package crd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/planekit/planekit/internal/hookclient"
	"github.com/planekit/planekit/kinds/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
)

// A conversionReview holds the answer of a webhook, in v1 or in v1beta1
// (https://kubernetes.io/docs/reference/config-api/apiserver-webhook-conversion.v1/).
type conversionReview struct {
	metav1.TypeMeta `json:",inline"`
	Response        *conversionResponse `json:"response,omitempty"`
}

type conversionResponse struct {
	UID              types.UID              `json:"uid"`
	ConvertedObjects []runtime.RawExtension `json:"convertedObjects"`
	Result           metav1.Status          `json:"result"`
}

// DeepCopyObject implements [runtime.Object]. Reviews are not shared.
func (r *conversionReview) DeepCopyObject() runtime.Object { out := *r; return &out }

const reviewKind = "ConversionReview"

// newReviewDecoder returns a decoder of answers.
func newReviewDecoder() runtime.Decoder {
	scheme := runtime.NewScheme()
	for _, version := range reviewVersions {
		gv := schema.GroupVersion{Group: apiextensions.GroupName, Version: version}
		scheme.AddKnownTypeWithName(gv.WithKind(reviewKind), &conversionReview{})
		metav1.AddToGroupVersion(scheme, gv)
	}
	return serializer.NewCodecFactory(scheme).UniversalDeserializer()
}

// question returns the review that asks for objects in a version.
func question(version string, uid types.UID, desired string, objects [][]byte) []byte {
	text := func(s string) []byte {
		data, _ := json.Marshal(s) // it cannot fail
		return data
	}
	return bytes.Join([][]byte{
		[]byte(`{"kind":"ConversionReview","apiVersion":`), text(apiextensions.GroupName + "/" + version),
		[]byte(`,"request":{"uid":`), text(string(uid)), []byte(`,"desiredAPIVersion":`), text(desired),
		[]byte(`,"objects":[`), bytes.Join(objects, []byte{','}),
		[]byte(`]},"response":{"uid":"","convertedObjects":null,"result":{"metadata":{}}}}`),
	}, nil)
}

// answered returns the review in an answer to one of the version. Its errors have the words of kube-apiserver and its
// client.
func answered(decoder runtime.Decoder, answer *hookclient.Answer, version string) (*conversionReview, error) {
	if err := refused(decoder, answer); err != nil {
		return nil, err
	}
	if len(answer.Body) == 0 {
		return nil, fmt.Errorf("0-length response with status code: %d and content type: %s", answer.Code, contentType(answer))
	}
	var review conversionReview
	obj, _, err := decoder.Decode(answer.Body, nil, &review)
	if err != nil {
		return nil, err
	}
	if is := kindIn(obj, &review); is != "" && is != version+"."+reviewKind {
		return nil, fmt.Errorf("converting (%s) to (%s.%s): unknown conversion", is, version, reviewKind)
	}
	return &review, nil
}

// kindIn names the type that kube-apiserver would have decoded an answer to, empty if the answer does not say.
func kindIn(obj runtime.Object, review *conversionReview) string {
	switch {
	case obj != runtime.Object(review):
		return strings.TrimPrefix(fmt.Sprintf("%T", obj), "*") // such as a metav1.Status
	case review.APIVersion == "":
		return ""
	}
	return review.GroupVersionKind().Version + "." + reviewKind
}

// converted returns the converted objects in a review.
func converted(review *conversionReview, version string, uid types.UID) ([]runtime.RawExtension, error) {
	want := schema.GroupVersionKind{Group: apiextensions.GroupName, Version: version, Kind: reviewKind}
	r := review.Response
	// Webhooks of v1beta1 need not repeat the version and the UID.
	strict := version != "v1beta1"
	switch {
	case strict && review.GroupVersionKind() != want:
		return nil, fmt.Errorf("expected webhook response of %v, got %v", want, review.GroupVersionKind())
	case r == nil:
		return nil, errors.New("no response provided")
	case strict && r.UID != uid:
		return nil, fmt.Errorf("expected response.uid=%q, got %q", uid, r.UID)
	case r.Result.Status == metav1.StatusSuccess:
		return r.ConvertedObjects, nil
	case r.Result.Message != "":
		return nil, errors.New(r.Result.Message)
	}
	return nil, fmt.Errorf("response.result.status was '%s', not 'Success'", r.Result.Status)
}

func contentType(answer *hookclient.Answer) string {
	if is := answer.Header.Get("Content-Type"); is != "" {
		return is
	}
	return "application/json"
}

// maxQuoted bounds what an error quotes of an answer.
const maxQuoted = 2048

// refused returns the error of an answer whose status is not a success.
func refused(decoder runtime.Decoder, answer *hookclient.Answer) error {
	if answer.Code >= 200 && answer.Code <= 206 {
		return nil
	}
	message := "unknown"
	if media, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type")); err == nil && strings.HasPrefix(media, "text/") {
		message = strings.TrimSpace(string(answer.Body[:min(len(answer.Body), maxQuoted)]))
	}
	err := apierrors.NewGenericServerResponse(answer.Code, http.MethodPost, schema.GroupResource{}, "", message, 0, true)
	obj, _, failed := decoder.Decode(answer.Body, &schema.GroupVersionKind{Version: "v1", Kind: "Status"}, nil)
	if status, ok := obj.(*metav1.Status); failed == nil && ok && status.Status == metav1.StatusFailure {
		return apierrors.FromObject(status)
	}
	return err
}
