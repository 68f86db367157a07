package ocinote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
		return nil, errors.New("text behind the end of the object")
	}
	if o == nil {
		return nil, errors.New("no object")
	}
	return o, nil
}

// child returns the object in a field, which it makes if there is none.
func (o object) child(field string) (object, error) {
	switch value := o[field].(type) {
	case nil:
		made := object{}
		o[field] = made
		return made, nil
	case object:
		return value, nil
	case map[string]any:
		return value, nil
	default:
		return nil, fmt.Errorf("%s is not an object", field)
	}
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

// replace puts an object into the list in a field. It replaces the object with the same value under key. Without such
// an object it appends.
func (o object) replace(field, key string, element object) error {
	objects, err := o.list(field)
	if err != nil {
		return err
	}
	for i, other := range objects {
		if other[key] == element[key] {
			objects[i] = element
			o.setList(field, objects)
			return nil
		}
	}
	o.setList(field, append(objects, element))
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

// toObject turns a part of a note into an object.
func toObject(part any) (object, error) {
	text, err := json.Marshal(part)
	if err != nil {
		return nil, err
	}
	return parse(text)
}
