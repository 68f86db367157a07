package ocinote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// object is a JSON object whose unknown parts are kept. Numbers stay as they are
// written.
type object map[string]any

// parse reads one JSON object and nothing else.
func parse(text []byte) (object, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var o object
	if err := decoder.Decode(&o); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after the end of the object")
	}
	if o == nil {
		return nil, errors.New("no object")
	}
	return o, nil
}

// child returns the object at a path of fields. It makes the objects that are missing.
func (o object) child(path ...string) (object, error) {
	for _, field := range path {
		switch value := o[field].(type) {
		case nil:
			made := object{}
			o[field] = made
			o = made
		case object:
			o = value
		case map[string]any:
			o = value
		default:
			return nil, fmt.Errorf("%s is not an object", field)
		}
	}
	return o, nil
}

// list returns the objects in a field.
func (o object) list(field string) ([]object, error) {
	values, ok := o[field].([]any)
	if !ok && o[field] != nil {
		return nil, fmt.Errorf("%s is not a list", field)
	}
	var objects []object
	for i, value := range values {
		element, ok := value.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s[%d] is not an object", field, i)
		}
		objects = append(objects, element)
	}
	return objects, nil
}

// setList puts objects into a field.
func (o object) setList(field string, objects []object) {
	values := make([]any, 0, len(objects))
	for _, element := range objects {
		values = append(values, map[string]any(element))
	}
	o[field] = values
}

// replace puts elements into the list in a field. An element replaces the object with the same value under key. If the
// list has no such object, the element is appended.
func (o object) replace(field, key string, elements ...object) error {
	for _, element := range elements {
		objects, err := o.list(field)
		if err != nil {
			return err
		}
		same := func(other object) bool { return other[key] == element[key] }
		if i := slices.IndexFunc(objects, same); i >= 0 {
			objects[i] = element
		} else {
			objects = append(objects, element)
		}
		o.setList(field, objects)
	}
	return nil
}

// strings returns the texts in a field.
func (o object) strings(field string) ([]string, error) {
	values, ok := o[field].([]any)
	if !ok && o[field] != nil {
		return nil, fmt.Errorf("%s is not a list", field)
	}
	var texts []string
	for i, value := range values {
		text, ok := value.(string)
		if !ok {
			return nil, fmt.Errorf("%s[%d] is not text", field, i)
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// setStrings puts texts into a field.
func (o object) setStrings(field string, texts []string) {
	values := make([]any, 0, len(texts))
	for _, text := range texts {
		values = append(values, text)
	}
	o[field] = values
}

// merge puts texts into the object in a field.
func (o object) merge(field string, texts map[string]string) error {
	if len(texts) == 0 {
		return nil
	}
	into, err := o.child(field)
	if err != nil {
		return err
	}
	for key, text := range texts {
		into[key] = text
	}
	return nil
}

// toObjects turns parts of a note into objects.
func toObjects[T any](parts []T) ([]object, error) {
	var objects []object
	for _, part := range parts {
		text, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}
		element, err := parse(text)
		if err != nil {
			return nil, err
		}
		objects = append(objects, element)
	}
	return objects, nil
}
